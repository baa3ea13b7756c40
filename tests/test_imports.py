"""Which part of the package may import which, what must stay free of third parties, and what must stay light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import wirebound

PACKAGE = Path(wirebound.__file__).parent
EVERYONE = {"errors", "units", "__init__"}

#: Part of the package → parts that it may import besides its own and `EVERYONE`.
ARROWS = {
    "errors": set(),
    "units": set(),
    "files": set(),
    "model": set(),
    "simulate": {"model"},
    "fit": {"files", "model", "simulate"},
    "profile": {"files", "model"},
    "techniques": {"files", "model", "profile"},  # profile: its model to train
    "testbed": {"files", "model", "simulate", "fit", "profile", "techniques"},
}
#: These stand on top and may import everything but each other's users.
ON_TOP = {
    "study": {"cli"},
    "figures": {"study", "cli"},
    "timeline_figure": {"study", "cli"},
    "testbed_figures": {"study", "cli"},
    "utilization_figure": {"study", "cli"},
    "cli": set(),
}
STANDARD_LIBRARY_ONLY = {"errors", "units", "model", "simulate"}
#: Modules of `simulate` that are the fast path and may use NumPy and Numba.
FAST_PATH = {"sweep.py", "sweep_axes.py", "sweep_kernels.py", "sweep_range.py"}
HEAVY = ("numpy", "numba", "dask", "xarray", "pandas", "torch", "pandera", "scipy", "matplotlib", "pytask", "papermill")

MODULES = sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Dotted names of all modules that a file imports, inside functions as well."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                folder = path.relative_to(PACKAGE.parent).parts[: -node.level]
                base = ".".join((*folder, *filter(None, [base])))
            names.add(base)
            if base == "wirebound":  # from wirebound import figures
                names.update(f"wirebound.{alias.name}" for alias in node.names)
    return names


def test_the_reader_of_imports_sees_local_and_relative_ones(tmp_path):
    source = "def f():\n    from wirebound.cli import predict\n    import numpy.linalg\n"
    file = tmp_path / "x.py"
    file.write_text(source, encoding="utf-8")
    assert imported(file) == {"wirebound.cli", "numpy.linalg"}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_import_arrows(path):
    part = part_of(path)
    used = {name.split(".")[1] for name in imported(path) if name.startswith("wirebound.")} - EVERYONE - {part}
    used.discard("__version__")
    if part in ARROWS:
        assert used <= ARROWS[part], f"{part} may not import {', '.join(sorted(used - ARROWS[part]))}"
    elif part in ON_TOP:
        assert not used & ON_TOP[part]
    else:
        assert part in {"__init__", "__main__"}, f"say in this test what {part} may import"


@pytest.mark.parametrize(
    "path",
    [p for p in MODULES if part_of(p) in STANDARD_LIBRARY_ONLY and p.name not in FAST_PATH],
    ids=lambda p: p.relative_to(PACKAGE).as_posix(),
)
def test_the_engine_uses_the_standard_library_only(path):
    foreign = {name.split(".")[0] for name in imported(path)} - sys.stdlib_module_names - {"wirebound"}
    assert not foreign


@pytest.mark.parametrize("path", [p for p in MODULES if p.name == "__init__.py"], ids=lambda p: p.parent.name)
def test_package_files_import_nothing_heavy_at_the_top(path):
    top = ast.parse(path.read_text(encoding="utf-8")).body
    names = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in top if isinstance(node, ast.ImportFrom)}
    assert not {name.split(".")[0] for name in names} & set(HEAVY)


def loaded_after(code: str) -> set[str]:
    """Names of the modules that a fresh interpreter has loaded after running `code`."""
    report = "\nimport sys\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code + report], capture_output=True, text=True, check=True)
    return {line.split(".")[0] for line in done.stderr.splitlines()}


PREDICT = """
from wirebound.cli import main
try:
    main(["predict", "--workload", "resnet50", "--gpus", "64", "--bandwidth", "10 Gbps", "--method", "wfbp-a2a"])
except SystemExit as end:
    assert not end.code
"""


@pytest.mark.parametrize("code", ["import wirebound.cli", PREDICT], ids=["import", "predict"])
def test_light_commands_load_nothing_heavy(code):
    assert not loaded_after(code) & set(HEAVY)


def test_the_engine_loads_no_third_party_module():
    loaded = loaded_after("import wirebound.simulate.step, wirebound.simulate.need, wirebound.model.library")
    started = loaded_after("")
    assert not loaded - started - sys.stdlib_module_names - {"wirebound"}
