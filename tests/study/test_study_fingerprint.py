"""Digests follow meaning, and the modules of a chapter are found wherever they are imported."""

import json
from pathlib import Path

import pytest
from toy_study import CHAPTERS, CODE, write_notebook

from wirebound.errors import InputError
from wirebound.study.check_notebooks import check_notebooks, fix_notebook, main, parameters_cell
from wirebound.study.fingerprint import (
    Modules,
    digest_data,
    digest_file,
    digest_folder,
    digest_lock,
    digest_notebook,
    read_cells,
)


def make_package(folder: Path, **modules: str) -> Path:
    """A package ``pack``; ``__`` in a name stands for a dot."""
    package = folder / "pack"
    for name, source in modules.items():
        path = package.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    for inner in (package, *(path for path in package.rglob("*") if path.is_dir())):
        if not (inner / "__init__.py").exists():
            (inner / "__init__.py").write_text("")
    return package


@pytest.mark.parametrize(
    ("source", "used"),
    [
        ("import os, json", set()),
        ("import pack", {"pack"}),
        ("import pack.a", {"pack", "pack.a"}),
        ("import pack.sub.deep as d", {"pack", "pack.sub", "pack.sub.deep", "pack.a"}),
        ("from pack import a", {"pack", "pack.a"}),
        ("from pack import not_a_module", {"pack"}),
        ("from pack.sub import deep, nothing", {"pack", "pack.sub", "pack.sub.deep", "pack.a"}),
        ("from pack.b import *", {"pack", "pack.b", "pack.a"}),
        ("def f():\n    if True:\n        from pack.b import x", {"pack", "pack.b", "pack.a"}),
        ("import importlib\nimportlib.import_module('pack.a')", {"pack", "pack.a"}),
        ("import pack.cycle", {"pack", "pack.cycle", "pack.b", "pack.a"}),
        ("import packaging, pack_other", set()),
        ("this is not Python", set()),
    ],
)
def test_transitive_imports(tmp_path: Path, source: str, used: set[str]) -> None:
    package = make_package(
        tmp_path,
        a="VALUE = 1",
        b="def f():\n    from . import a\n",
        cycle="import pack.cycle\nfrom .b import f\n",
        unused="VALUE = 2",
        sub__deep="from ..a import VALUE\n",
    )
    assert set(Modules(package).used_by([source])) == used


def test_init_imports_are_relative_to_the_package(tmp_path: Path) -> None:
    package = make_package(tmp_path, a="VALUE = 1", sub__deep="VALUE = 2")
    (package / "sub" / "__init__.py").write_text("from . import deep\nfrom .. import a\n")
    assert set(Modules(package).used_by(["import pack.sub"])) == {"pack", "pack.sub", "pack.sub.deep", "pack.a"}


@pytest.mark.parametrize(
    ("after", "same"),
    [
        ('"""Other."""\n# note\ndef f(x):\n    return (x\n            + 1)\n', True),
        ('def f(x):\n    """Said."""\n    return x + 1\n', True),
        ("def f(x):\n    return x + 2\n", False),
        ("def f(x):\n    return 'x + 1'\n", False),
        ("def f(x, y=0):\n    return x + 1\n", False),
    ],
)
def test_module_digest(tmp_path: Path, after: str, same: bool) -> None:
    package = make_package(tmp_path, a='"""Doc."""\ndef f(x):\n    return x + 1\n')
    before = Modules(package).used_by(["import pack.a"])
    (package / "a.py").write_text(after)
    assert (Modules(package).used_by(["import pack.a"]) == before) is same


def test_notebook_digest() -> None:
    def digest(source: str = "x = 1", kind: str = "code", **more: object) -> str:
        return digest_notebook([{"cell_type": kind, "source": source, "metadata": {}} | more])

    assert digest("x=1  # note") == digest()
    assert digest(outputs=[1], execution_count=3, id="other") == digest()
    assert digest(metadata={"collapsed": True, "execution": {}}) == digest()
    assert digest("'text'") != digest("'other'")  # a cell's last text is shown, so it is no docstring
    assert digest("x = 2") != digest()
    assert digest("x = = 1") != digest("x = = 2")
    assert digest(metadata={"tags": ["hide-input"]}) != digest()
    assert digest("a  b", "markdown") != digest("a b", "markdown")
    assert digest("x = 1", "markdown") != digest()
    picture = {"attachments": {"a.png": {"image/png": "AAAA"}}}
    other = {"attachments": {"a.png": {"image/png": "AAAB"}}}
    assert len({digest("![](attachment:a.png)", "markdown", **more) for more in ({}, picture, other)}) == 3


def test_file_digests(tmp_path: Path) -> None:
    (tmp_path / "data" / "more").mkdir(parents=True)
    (tmp_path / "data" / "a.csv").write_text("1")
    (tmp_path / "data" / "more" / "b.csv").write_text("2")
    # printf 1 | sha256sum
    assert (
        digest_file(tmp_path / "data" / "a.csv") == "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
    )
    assert digest_data(tmp_path / "data", "a.csv") == digest_file(tmp_path / "data" / "a.csv")
    pattern = digest_data(tmp_path / "data", "*.csv")
    folder = digest_data(tmp_path, "data")
    (tmp_path / "data" / "more" / "b.csv").rename(tmp_path / "data" / "b.csv")
    assert digest_folder(tmp_path / "data") != folder
    assert digest_data(tmp_path / "data", "*.csv") != pattern
    with pytest.raises(InputError, match=r"data file '\*\.txt' is missing"):
        digest_data(tmp_path / "data", "*.txt")
    with pytest.raises(InputError, match=r"data file 'c.csv' is missing"):
        digest_data(tmp_path / "data", "c.csv")
    lock = tmp_path / "lock"
    assert digest_lock(lock) == "absent"
    lock.write_text("# made today\nb==2\n\na==1  # why\n")
    first = digest_lock(lock)
    lock.write_text("a==1\nb==2\n")
    assert digest_lock(lock) == first
    lock.write_text("a==1\nb==3\n")
    assert digest_lock(lock) != first


MEASURE = CHAPTERS[0]


def test_parameters_cell_is_python_with_the_declared_defaults() -> None:
    values: dict[str, object] = {}
    exec(parameters_cell(MEASURE), values)
    values.pop("__builtins__")
    assert values == {"rate": "10 Gbps", "digits": 3, "label": "plain"}
    assert list(values) == [parameter.name for parameter in MEASURE.parameters]


def test_check_and_fix(tmp_path: Path) -> None:
    path = tmp_path / "measure.ipynb"
    write_notebook(path, MEASURE, CODE["measure"])
    chapters = (MEASURE,)
    assert check_notebooks(tmp_path, chapters) == []
    assert check_notebooks(tmp_path, CHAPTERS[:2]) == [
        f"notebook analyse.ipynb is missing: restore it in {tmp_path.name}/"
    ]
    (tmp_path / "extra.ipynb").write_text("{}")
    assert "extra.ipynb: no chapter of that name" in check_notebooks(tmp_path, chapters)[0]
    (tmp_path / "extra.ipynb").unlink()

    notebook = json.loads(path.read_text())
    prose, parameters, code = notebook["cells"]
    parameters["source"] = parameters["source"].replace("digits = 3", "digits = 4")
    code |= {"outputs": [{"output_type": "stream", "name": "stdout", "text": "x"}], "execution_count": 2}
    code["metadata"] = {"execution": {"a": 1}, "tags": ["hide-input"]}
    notebook["cells"] = [prose, code, parameters]
    path.write_text(json.dumps(notebook))
    problems = check_notebooks(tmp_path, chapters)
    assert len(problems) == 2
    assert "first code cell, and no other, must be tagged 'parameters'" in problems[0]
    assert "cell 2 keeps outputs" in problems[1]
    assert fix_notebook(path, MEASURE)
    assert check_notebooks(tmp_path, chapters) == []
    assert not fix_notebook(path, MEASURE)
    cells = read_cells(path)
    assert [cell["id"] for cell in cells] == ["prose", "code-0", "code-1"]
    assert cells[2]["metadata"] == {"tags": ["hide-input"]}
    assert cells[2]["source"] == CODE["measure"]

    del notebook["cells"][2]
    notebook["cells"][1]["source"] = "%matplotlib inline"
    path.write_text(json.dumps(notebook))
    assert fix_notebook(path, MEASURE)
    assert check_notebooks(tmp_path, chapters) == [
        "notebooks/measure.ipynb: cell 3 is not plain Python (invalid syntax)"
    ]

    notebook["cells"][1]["source"] = " \n"
    path.write_text(json.dumps(notebook))
    assert fix_notebook(path, MEASURE)
    assert check_notebooks(tmp_path, chapters) == ["notebooks/measure.ipynb: cell 3 is empty: delete it"]


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "_config.yml").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("wirebound.study.check_notebooks.CHAPTERS", ())
    assert main([]) == 0
    (tmp_path / "notebooks" / "stray.ipynb").write_text("{}")
    assert main(["--fix"]) == 1
    assert "stray.ipynb" in capsys.readouterr().out
    assert main(["--wrong"]) == 2
