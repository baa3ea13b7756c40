"""What notebooks use: printing of values, results, figures with their downloads, artifacts of other chapters."""

import base64
import json
import re

import pandas as pd
import pytest

from wirebound import figures
from wirebound.errors import InputError
from wirebound.study import notebook
from wirebound.study.notebook import ChapterFolder, format_value, open_chapter
from wirebound.study.project import Project, find_project


@pytest.fixture
def project(tmp_path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "_config.yml").touch()
    return Project(tmp_path.resolve())


@pytest.fixture
def shown(monkeypatch):
    """The HTML fragments that the chapter displays."""
    fragments = []
    monkeypatch.setattr(notebook, "_display_html", fragments.append)
    return fragments


@pytest.fixture
def chapter(project):
    return ChapterFolder("example", project, project.runs / "quick")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (53.97, "%", "54.0 %"),
        (7.9012, "×", "7.90 ×"),
        (0.01234, "s", "0.0123 s"),
        (123456.7, "B", "123,457 B"),
        (3.2e-7, "s", "3.2e-07 s"),
        (252, "rows", "252 rows"),
        (0.0, "ms", "0.00 ms"),
        (True, "", "yes"),
        ("MG-WFBP", "", "MG-WFBP"),
    ],
)
def test_format_value(value, unit, text):
    assert format_value(value, unit) == text


def test_results_are_rounded_and_live_ones_kept_apart(chapter, project):
    chapter.result("ratio", 2.7500000001, "×", tolerance=0.01, label="a ratio")
    chapter.live("probe", 1.5, "ms", label="this machine")
    folder = project.runs / "quick" / "artifacts" / "example"
    assert json.loads((folder / "results.json").read_text(encoding="utf-8")) == {
        "chapter": "example",
        "results": [{"name": "ratio", "value": 2.75, "unit": "×", "tolerance": 0.01, "label": "a ratio"}],
    }
    assert json.loads((folder / "live.json").read_text(encoding="utf-8"))["results"] == [
        {"name": "probe", "value": 1.5, "unit": "ms", "label": "this machine"}
    ]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_result_that_is_no_number_is_refused(chapter, value):
    with pytest.raises(ValueError, match="result 'ratio' of example"):
        chapter.result("ratio", value, label="a ratio")


def draw():
    figure, axes = figures.new_figure()
    axes.plot([1, 10, 100], [10, 50, 90], "o-", color=figures.workload_color("resnet50"), label="measured")
    figures.bandwidth_axis(axes, [1, 10, 100])
    figures.percent_axis(axes, "scaling factor")
    figures.legend_below(figure, axes)
    return figure


def test_figure_offers_its_table_and_svg(chapter, project, shown):
    table = pd.DataFrame({"gbps": [1, 10, 100], "percent": [10, 50, 90]})
    chapter.figure(draw(), name="scaling", table=table, alt='rises "fast" & far', caption="Scaling.")
    folder = project.runs / "quick" / "artifacts" / "example"
    assert pd.read_csv(folder / "scaling.csv").equals(table)
    (fragment,) = shown
    assert 'alt="rises &quot;fast&quot; &amp; far"' in fragment
    for address in re.findall(r'href="([^"]+)"', fragment):
        assert (project.runs / "quick" / "notebooks" / address).resolve().is_file()
    embedded = re.search(r"base64,([^\"]+)", fragment)[1]
    assert base64.b64decode(embedded) == (folder / "scaling.svg").read_bytes()


def test_the_same_figure_is_the_same_bytes():
    assert figures.render_svg(draw()) == figures.render_svg(draw())


def test_table_shows_its_printed_form_and_offers_the_numbers(chapter, project, shown):
    table = pd.DataFrame({"percent": [53.9749]})
    chapter.table(table, name="exact", caption="One.", shown=pd.DataFrame({"scaling": ["54 %"]}))
    assert "54\u00a0%" in shown[0]  # a number and its unit stay on one line
    assert "53.9749" not in shown[0]
    written = project.runs / "quick" / "artifacts" / "example" / "exact.csv"
    assert written.read_text(encoding="utf-8") == "percent\n53.9749\n"


def test_artifacts_of_other_chapters(chapter, project):
    first = ChapterFolder("first", project, project.runs / "quick")
    table = pd.DataFrame({"bytes": [1, 2]})
    first.write_table(table, "samples")
    first.write_json({"alpha_s": 1e-5}, "fit")
    assert chapter.read_table("first/samples.parquet").equals(table)
    assert chapter.read_json("first/fit.json") == {"alpha_s": 1e-5}
    with pytest.raises(InputError, match="run the chapter 'second'"):
        chapter.read_json("second/fit.json")


def test_by_hand_writes_beside_the_runs_and_reads_the_last_quick_one(project, monkeypatch):
    ChapterFolder("first", project, project.runs / "quick").write_json([1], "fit")
    monkeypatch.chdir(project.notebooks)
    for _ in range(2):  # running the cell twice changes nothing
        by_hand = open_chapter("second")
        assert by_hand.folder == project.runs / "by-hand"
        assert by_hand.read_json("first/fit.json") == [1]
    assert not by_hand.has_live()


def test_in_a_run_the_folder_is_the_working_directory(project, monkeypatch):
    work = project.runs / ".work" / "quick"
    work.mkdir(parents=True)
    monkeypatch.chdir(work)
    chapter = open_chapter("first")
    assert chapter.folder == work
    assert chapter.fallback is None


def test_outside_a_checkout_is_one_clear_line(tmp_path):
    with pytest.raises(InputError, match="not inside a Wirebound checkout"):
        find_project(tmp_path)
