"""Find a browser for the tests; as a script, install Playwright's own Chromium where there is none."""

import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
    "C:/Program Files (x86)/Microsoft/Edge/Application/msedge.exe",
)
REMEDY = "no browser found: install Chromium or Chrome, or run `python -m playwright install --with-deps chromium`"


def find_browser() -> str | None:
    """Return the path of a Chromium, Chrome or Edge, else of the one that Playwright downloaded, else None."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    return found or next((place for place in PLACES if Path(place).is_file()), None) or _downloaded()


def _downloaded() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if path and Path(path).is_file() else None


def main() -> int:
    """Make sure that there is a browser; return the exit code."""
    if find_browser() is None:
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=False)
        if find_browser() is None:
            print(REMEDY, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
