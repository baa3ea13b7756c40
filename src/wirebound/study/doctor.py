"""`wirebound doctor`: is everything here that the study needs, and what to do where it is not?"""

import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from wirebound.errors import InputError
from wirebound.profile.machine import memory_bytes, usable_cores
from wirebound.study.project import Project, find_project

#: Module → what to install for it.
MODULES = {
    "ipykernel": "ipykernel",
    "papermill": "papermill",
    "pytask": "pytask",
    "yaml": "pyyaml",
    "filelock": "filelock",
    "numpy": "numpy",
    "scipy": "scipy",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "matplotlib": "matplotlib",
    "seaborn": "seaborn",
    "torch": "torch",
    "jupyter_book": "'jupyter-book<2'",
}
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")
_PINNED = re.compile(r"([A-Za-z0-9._-]+)==([^\s;#]+)")


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: `state` is ok, warn or fail; `remedy` says what to do unless it is ok."""

    name: str
    state: str
    message: str
    remedy: str = ""


def run_checks() -> list[Check]:
    """Return all findings, for the checkout around the working directory if there is one."""
    try:
        project = find_project()
    except InputError as error:
        place = [Check("checkout", "warn", str(error), "only `run`, `book`, `serve`, `status` and `compare` need one")]
        folder = Path.cwd()
    else:
        place = [Check("checkout", "ok", "inside a checkout"), check_lock(project)]
        folder = project.root
    return [
        check_python(sys.version_info[:3]),
        *check_modules(),
        check_kernel(),
        *place,
        check_browser(),
        check_disk(shutil.disk_usage(folder).free),
        check_memory(memory_bytes()),
        Check("cores", "ok", f"{usable_cores()} usable"),
    ]


def check_python(version: Sequence[int]) -> Check:
    """Python 3.11 or later."""
    text = ".".join(map(str, version))
    if tuple(version[:2]) >= (3, 11):
        return Check("python", "ok", text)
    return Check("python", "fail", f"{text} is too old", "install Python 3.11 or later and run `make setup`")


def check_modules(modules: dict[str, str] | None = None) -> list[Check]:
    """Every package that the study needs can be imported."""
    checks = []
    for module, requirement in (MODULES if modules is None else modules).items():
        try:
            importlib.import_module(module)
        except Exception as error:  # a broken package may raise anything
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            checks.append(Check(module, "fail", reason, f"pip install {requirement}"))
        else:
            checks.append(Check(module, "ok", "can be imported"))
    return checks


def check_lock(project: Project) -> Check:
    """The installed versions are those of requirements.lock."""
    path = project.root / "requirements.lock"
    remedy = "pip install -r requirements.lock"
    if not path.is_file():
        return Check("requirements.lock", "warn", "there is none", "restore it with git checkout requirements.lock")
    different = []
    for line in path.read_text(encoding="utf-8").splitlines():
        match = _PINNED.match(line)
        if match is None:
            continue
        try:
            installed = metadata.version(match[1]).partition("+")[0]
        except metadata.PackageNotFoundError:
            installed = "missing"
        if installed != match[2].partition("+")[0]:
            different.append(f"{match[1]} {installed} (lock: {match[2]})")
    if not different:
        return Check("requirements.lock", "ok", "all versions as pinned")
    more = f" and {len(different) - 5} more" if len(different) > 5 else ""
    return Check("requirements.lock", "warn", f"other versions: {', '.join(different[:5])}{more}", remedy)


def check_kernel() -> Check:
    """This interpreter can start a Jupyter kernel."""
    answer = subprocess.run(
        [sys.executable, "-m", "ipykernel_launcher", "--version"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if answer.returncode == 0:
        return Check("kernel", "ok", f"ipykernel {metadata.version('ipykernel')} of this interpreter")
    lines = answer.stderr.strip().splitlines() or [f"exit code {answer.returncode}"]
    return Check("kernel", "fail", lines[-1], "pip install --force-reinstall ipykernel")


def check_browser() -> Check:
    """A browser for the browser tests; nothing else needs one."""
    caches = (Path.home() / ".cache" / "ms-playwright", Path.home() / "Library" / "Caches" / "ms-playwright")
    found = next((name for name in _BROWSERS if shutil.which(name)), None)
    if found or any(cache.is_dir() and any(cache.glob("chromium*")) for cache in caches):
        return Check("browser", "ok", found or "Playwright's Chromium")
    return Check("browser", "warn", "no Chromium: only the browser tests need it", "playwright install chromium")


def check_disk(free_bytes: int) -> Check:
    """Room for runs and the book."""
    text = f"{free_bytes / 1e9:.1f} GB free"
    if free_bytes >= 2e9:
        return Check("disk", "ok", text)
    return Check("disk", "warn" if free_bytes >= 0.5e9 else "fail", text, "free 2 GB, for example with `make clean`")


def check_memory(total_bytes: int | None) -> Check:
    """Memory for PyTorch and a few worker processes."""
    if total_bytes is None:
        return Check("memory", "warn", "its size is not known", "make sure that there are 4 GB")
    text = f"{total_bytes / 2**30:.1f} GiB"
    if total_bytes >= 3.5 * 2**30:
        return Check("memory", "ok", text)
    return Check("memory", "warn", f"{text} is little", "use --no-live, and close other programs")
