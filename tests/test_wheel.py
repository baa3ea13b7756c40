"""The wheel works in an empty environment, away from the checkout: only typer and what it needs are beside it."""

import csv
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed")

ROOT = Path(__file__).parents[1]


def with_dependencies(name: str, found: set[str]) -> set[str]:
    """Add a distribution and all that it needs here to `found`."""
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return found  # a dependency of another platform
    if name not in found:
        found.add(name)
        for requirement in distribution.requires or []:
            if "extra ==" not in requirement:
                with_dependencies(re.split(r"[\s;<>=!~\[(]", requirement)[0].lower(), found)
    return found


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP", "VIRTUAL_ENV"))}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with the wheel, typer and nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    # The build reads a copy, so that it leaves nothing in the checkout.
    source = folder / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "data", source / "data")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")],
        cwd=source,
        env=clean_environment(),
        check=True,
        capture_output=True,
    )
    (wheel,) = (folder / "dist").glob("wirebound-*.whl")
    venv.create(folder / "env", symlinks=os.name != "nt")
    scripts = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    interpreter = scripts / ("python.exe" if os.name == "nt" else "python")
    pip = [sys.executable, "-m", "pip", "--python", str(interpreter), "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel)],
        env=clean_environment(),
        check=True,
        capture_output=True,
    )
    report = [str(interpreter), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    library = Path(
        subprocess.run(report, env=clean_environment(), check=True, capture_output=True, text=True).stdout.strip()
    )
    here = Path(sysconfig.get_path("purelib"))
    for name in with_dependencies("typer", set()):
        for file in importlib.metadata.files(name) or []:
            if ".." not in file.parts and "__pycache__" not in file.parts:
                target = library / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(here / file, target)
    return interpreter


def run(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-m", "wirebound", *arguments]
    return subprocess.run(command, cwd=folder, env=clean_environment(), capture_output=True, text=True, check=False)


def test_environment_is_empty_and_the_package_is_the_wheel(python: Path, tmp_path: Path) -> None:
    script = (
        "import importlib.util as u, wirebound; print(wirebound.__file__, u.find_spec('numpy'), u.find_spec('torch'))"
    )
    result = subprocess.run(
        [str(python), "-c", script], cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=True
    )
    file, *modules = result.stdout.split()
    assert Path(file).is_relative_to(python.parents[1])
    assert modules == ["None", "None"]


def test_predict(python: Path, tmp_path: Path) -> None:
    job = ("--workload", "vgg16", "--gpus", "16", "--bandwidth", "10 Gbps", "--method", "horovod", "--json")
    result = run(python, tmp_path, "predict", *job)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert 0 < document["scaling_factor"] < 1
    assert document["iteration_s"] > 0.194523523


def test_reproduce(python: Path, tmp_path: Path) -> None:
    result = run(python, tmp_path, "reproduce", "zhang2020-whatif", "--out", "whatif.csv")
    assert result.returncode == 0, result.stderr
    with (tmp_path / "whatif.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with (ROOT / "data" / "published" / "zhang2020_whatif_resnet50.csv").open(encoding="utf-8", newline="") as file:
        published = {
            (row["gpus"], row["link_gbps"], row["compression"]): float(row["scaling_percent"]) / 100
            for row in csv.DictReader(file)
        }
    assert len(rows) == 270
    ours = {
        (row["N"], row["link_gbps"], row["compression"]): float(row["scaling_factor"])
        for row in rows
        if row["model"] == "resnet50"
    }
    assert ours == pytest.approx(published, abs=1e-4)


def test_command_that_needs_the_study_says_so_in_one_line(python: Path, tmp_path: Path) -> None:
    result = run(python, tmp_path, "reproduce", "shi2020", "--out", "shi.csv")
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "pip install 'wirebound[study]'" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_published_tables_are_in_the_wheel(python: Path, tmp_path: Path) -> None:
    script = (
        "from wirebound.model.library import data_folder;"
        "print(*sorted(path.name for path in (data_folder() / 'published').iterdir()))"
    )
    result = subprocess.run(
        [str(python), "-c", script], cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == sorted(path.name for path in (ROOT / "data" / "published").iterdir())
