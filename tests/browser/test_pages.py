"""Every page of the book in a real browser: complete, quiet, legible on a phone and in the dark."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect

PHONE_WIDTH = 390

_FIGURES = """() => [...document.querySelectorAll("figure img")].map(image => {
  const box = image.getBoundingClientRect();
  return {alt: image.alt, loaded: image.complete && image.naturalWidth > 0, width: box.width, height: box.height};
})"""
_ICON = re.compile(r'<link rel="icon" href="([^"]+)"')
_MATH = """() => [...document.querySelectorAll("article .math")].map(
  math => ({text: math.textContent.slice(0, 60), rendered: math.querySelector("mjx-container") !== null,
            error: math.querySelector("mjx-merror") !== null}))"""
_TOO_WIDE = """width => [...document.querySelectorAll("article *, header *, footer *")]
  .filter(element => element.getBoundingClientRect().right > width + 1 && element.checkVisibility())
  .slice(0, 3).map(element => `${element.tagName}.${element.className}`)"""


@dataclass
class Visit:
    """What happened when a page was opened."""

    name: str
    console: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)
    math: list[dict[str, Any]] = field(default_factory=list)
    phone_width: int = 0
    too_wide: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    context.set_default_timeout(20_000)
    yield context
    context.close()


@pytest.fixture(scope="module")
def visits(context: BrowserContext, site: str, pages: list[str]) -> list[Visit]:
    """Open every page once, on a desk and then at a phone's width."""
    return [_visit(context, site, name) for name in pages]


def _visit(context: BrowserContext, site: str, name: str) -> Visit:
    visit, page = Visit(name), context.new_page()
    page.on("console", lambda message: visit.console.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: visit.console.append(str(error)))
    page.on("requestfailed", lambda request: None if _left_behind(request, name) else visit.failed.append(request.url))
    page.on("response", lambda answer: visit.failed.append(answer.url) if answer.status >= 400 else None)
    page.on("request", lambda request: None if _own(request.url, site) else visit.foreign.append(request.url))
    page.goto(site + name, wait_until="load")
    if name == "index.html":
        page.wait_for_url("**/intro.html", wait_until="load")  # the first page is a redirect
    page.evaluate("() => document.fonts.ready")
    if page.locator("article .math").count():
        page.evaluate("() => MathJax.startup.promise")
    visit.figures = page.evaluate(_FIGURES)
    visit.math = page.evaluate(_MATH)
    page.set_viewport_size({"width": PHONE_WIDTH, "height": 844})
    page.wait_for_function("width => window.innerWidth === width", arg=PHONE_WIDTH)
    visit.phone_width = page.evaluate("() => document.documentElement.scrollWidth")
    if visit.phone_width > PHONE_WIDTH:
        visit.too_wide = page.evaluate(_TOO_WIDE, PHONE_WIDTH)
    page.close()
    return visit


def _left_behind(request: Request, name: str) -> bool:
    """Whether the first page, a redirect, was left before its icon had come; a missing icon answers with an error."""
    return name == "index.html" and request.failure == "net::ERR_ABORTED"


def _own(url: str, site: str) -> bool:
    return url.startswith((site, "data:", "blob:"))


def test_there_are_pages_with_figures_and_math(visits: list[Visit]) -> None:
    assert len(visits) > 15
    assert sum(len(visit.figures) for visit in visits) >= 7
    assert sum(len(visit.math) for visit in visits) >= 7


def test_no_page_logs_an_error(visits: list[Visit]) -> None:
    assert {visit.name: visit.console for visit in visits if visit.console} == {}


def test_no_request_fails(visits: list[Visit]) -> None:
    assert {visit.name: visit.failed for visit in visits if visit.failed} == {}


def test_every_page_names_its_icon(book_folder: Path, pages: list[str]) -> None:
    """A page without one makes the browser ask for /favicon.ico, which a site in a subfolder cannot have."""
    icons = {name: _ICON.findall((book_folder / name).read_text(encoding="utf-8")) for name in pages}
    assert {name: found for name, found in icons.items() if len(found) != 1} == {}
    assert all(((book_folder / name).parent / found[0]).is_file() for name, found in icons.items())


def test_no_request_leaves_the_site(visits: list[Visit]) -> None:
    assert {visit.name: visit.foreign for visit in visits if visit.foreign} == {}


def test_every_figure_is_visible(visits: list[Visit]) -> None:
    hidden = {
        visit.name: figure
        for visit in visits
        for figure in visit.figures
        if not (figure["loaded"] and figure["alt"] and figure["width"] > 100 and figure["height"] > 50)
    }
    assert hidden == {}


def test_all_math_is_rendered(visits: list[Visit]) -> None:
    broken = {
        visit.name: math["text"] for visit in visits for math in visit.math if math["error"] or not math["rendered"]
    }
    assert broken == {}


def test_no_page_is_wider_than_a_phone(visits: list[Visit]) -> None:
    assert {visit.name: visit.too_wide for visit in visits if visit.phone_width > PHONE_WIDTH} == {}


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    page = context.new_page()
    yield page
    page.close()


def test_search_finds_a_term(page: Page, site: str) -> None:
    page.goto(site + "intro.html")
    page.keyboard.press("Control+k")
    field = page.locator("dialog input[type=search], .search-button__wrapper.show input[type=search]").first
    expect(field).to_be_visible()
    field.fill("bulk synchronous parallel")
    field.press("Enter")
    page.wait_for_url("**/search.html?q=*")
    expect(page.locator("#search-results a[href*='glossary.html']").first).to_be_visible()


def test_one_search_field_is_offered(page: Page, site: str) -> None:
    page.goto(site + "intro.html")
    assert page.locator("button.search-button-field:visible, button.search-button:visible").count() == 1


def test_dark_mode_turns_page_and_figures(page: Page, site: str) -> None:
    page.goto(site + "notebooks/full_utilization.html")
    image = page.locator("figure.wb-figure img").first
    assert image.evaluate("image => getComputedStyle(image).filter") == "none"
    assert _lightness(page) > 200
    for _ in range(3):  # the button goes round through light, dark and the system's choice
        if page.evaluate("() => document.documentElement.dataset.theme") == "dark":
            break
        page.locator("button.theme-switch-button:visible").first.click()
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    assert _lightness(page) < 60
    assert "invert" in image.evaluate("image => getComputedStyle(image).filter")
    page.goto(site + "intro.html")
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark", "the choice is remembered"
    page.evaluate("() => localStorage.clear()")


def _lightness(page: Page) -> float:
    """Mean of red, green and blue of the page's ground, 0 to 255."""
    red, green, blue = page.evaluate(
        "() => getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).slice(0, 3).map(Number)"
    )
    return float(red + green + blue) / 3


def test_chapter_downloads_its_notebook(page: Page, site: str, book_folder: Path) -> None:
    page.goto(site + "notebooks/full_utilization.html")
    page.locator(".dropdown-download-buttons > button").click()
    link = page.locator("a.btn-download-source-button")
    expect(link).to_be_visible()
    answer = page.request.get(link.evaluate("link => link.href"))
    assert answer.body() == (book_folder / "_sources/notebooks/full_utilization.ipynb").read_bytes()


def test_figure_offers_table_and_drawing(page: Page, site: str) -> None:
    page.goto(site + "notebooks/full_utilization.html")
    links = page.locator("figure.wb-figure").first.locator("figcaption a[download]")
    for link in links.all():
        answer = page.request.get(link.evaluate("link => link.href"))
        assert answer.ok
        assert answer.body()
    assert links.count() == 2
