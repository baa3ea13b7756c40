"""What a value means: the same from the command line, a YAML file and Python."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirebound import units
from wirebound.errors import InputError
from wirebound.study.chapter import Chapter, check_registry, with_ancestors
from wirebound.study.chapters import CHAPTERS
from wirebound.study.inputs import Study, check_run_name, make_request
from wirebound.study.parameters import Parameter, Value
from wirebound.study.project import Project
from wirebound.study.settings import Layer, parse_assignments, read_parameters_file, resolve


def declare(kind: str, default: Any = "", **more: Any) -> Parameter:
    if kind == "choice":
        more.setdefault("choices", ("ring", "tree"))
    return Parameter("x", kind, default, "for the test", **more)


def from_everywhere(parameter: Parameter, text: str, tmp_path: Path) -> list[Value]:
    """The value that `text` gives on the command line, in a YAML file, and as a Python string."""
    chapter = Chapter(1, "only", "Only", (parameter,))
    file = tmp_path / "p.yaml"
    file.write_text(f"x: {text}\n", encoding="utf-8")
    layers = [parse_assignments([f"x={text}"])], [read_parameters_file(file, [chapter])], [Layer({"x": text})]
    return [resolve([chapter], layer)["only"]["x"] for layer in layers]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("integer", "10", 10),
        ("integer", "010", 10),
        ("integer", "-3", -3),
        ("text", "010", "010"),
        ("text", "true", "true"),
        ("text", "1e-3", "1e-3"),
        ("text", "é ✓", "é ✓"),
        ("number", "1e-3", 0.001),
        ("number", "010", 10.0),
        ("number", ".5", 0.5),
        ("number", "3", 3.0),
        ("boolean", "true", True),
        ("boolean", "False", False),
        ("choice", "tree", "tree"),
        ("workload", "vgg16", "vgg16"),
        ("bandwidth", "25 Gbps", "25 Gbps"),
        ("bandwidth", "25Gbps", "25 Gbps"),
        ("bandwidth", "1.25 GB/s", "10 Gbps"),
        ("bandwidth", "10e3 Mbps", "10 Gbps"),
        ("bandwidth", "2500 Mbit/s", "2.5 Gbps"),
        ("size", "64 MiB", "64 MiB"),
        ("size", "67108864 B", "64 MiB"),
        ("size", "4 MB", "4 MB"),
        ("size", "1000 B", "1 kB"),
        ("size", "123456789012345 B", "123.456789012345 TB"),
        ("size", "1000 TB", "1000 TB"),
        ("duration", "20 us", "20 us"),
        ("duration", "0.02 ms", "20 us"),
        ("duration", "1500 us", "1.5 ms"),
        ("duration", "1 min", "60 s"),
        ("duration", "0", "0 s"),
    ],
)
def test_text_means_what_its_kind_says(kind: str, text: str, value: Value, tmp_path: Path) -> None:
    for got in from_everywhere(declare(kind), text, tmp_path):
        assert (type(got), got) == (type(value), value)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("integer", 10, 10),
        ("number", 1e-3, 0.001),
        ("number", 4, 4.0),
        ("boolean", True, True),
        ("text", 10, "10"),
        ("text", True, "true"),
    ],
)
def test_python_value_means_what_yaml_would_write(kind: str, value: Any, expected: Value) -> None:
    assert declare(kind).convert(value) == expected
    assert type(declare(kind).convert(value)) is type(expected)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("integer", "4.0"),
        ("integer", 4.0),
        ("integer", "1e3"),
        ("integer", "1_000"),
        ("integer", "٣"),
        ("integer", True),
        ("integer", ""),
        ("integer", "9" * 5000),
        ("number", "nan"),
        ("number", math.inf),
        ("number", "1e999"),
        ("number", "three"),
        ("boolean", "1"),
        ("boolean", "yes"),
        ("boolean", 1),
        ("choice", "Ring"),
        ("workload", "resnet51"),
        ("bandwidth", "25"),
        ("bandwidth", "25 GiB"),
        ("bandwidth", "0 Gbps"),
        ("bandwidth", "-1 Gbps"),
        ("size", "10 Gbps"),
        ("duration", "5 parsecs"),
        ("duration", 5),
        ("text", [1]),
        ("text", {"a": 1}),
        ("integer", None),
        ("text", "null"),
    ],
)
def test_wrong_value_names_parameter_and_what_it_allows(kind: str, value: Any) -> None:
    with pytest.raises(InputError, match=r"parameter 'x': .*; allowed: ") as caught:
        declare(kind).convert(value)
    assert "\n" not in str(caught.value)


def test_null_is_for_optional_parameters(tmp_path: Path) -> None:
    assert from_everywhere(declare("integer", optional=True), "null", tmp_path) == [None] * 3
    assert declare("bandwidth", optional=True).convert(None) is None
    with pytest.raises(InputError, match="null is only for optional parameters"):
        declare("integer").convert(None)


def test_lists(tmp_path: Path) -> None:
    rates = declare("bandwidth", ["1 Gbps"], many=True)
    assert from_everywhere(rates, "[1 Gbps, 10000 Mbps]", tmp_path) == [["1 Gbps", "10 Gbps"]] * 3
    assert rates.convert(("1 Gbps", "2 Gbps")) == ["1 Gbps", "2 Gbps"]
    assert declare("integer", [1], many=True).convert([1, "02"]) == [1, 2]
    file = tmp_path / "block.yaml"
    file.write_text("x:\n- 1 Gbps\n- 2 Gbps\n")
    chapter = Chapter(1, "only", "Only", (rates,))
    assert resolve([chapter], [read_parameters_file(file, [chapter])])["only"]["x"] == ["1 Gbps", "2 Gbps"]
    for wrong in ("1 Gbps", "[]", "[1 Gbps, [2 Gbps]]", "[1 Gbps, null]", "[1 Gbps", "{a: 1}", [], ["fast"]):
        with pytest.raises(InputError, match=r"parameter 'x': .*; allowed: a list, such as \[1 Gbps\]"):
            rates.convert(wrong)
    with pytest.raises(InputError, match="not a single value"):
        declare("integer").convert([1, 2])


@pytest.mark.parametrize(
    ("parameter", "inside", "outside", "words"),
    [
        (
            declare("integer", 4, minimum=1, maximum=16384),
            ["1", "16384"],
            ["0", "16385"],
            "whole number from 1 to 16384",
        ),
        (declare("number", 1, minimum=1), ["1"], ["0.999"], "a number, at least 1"),
        (
            declare("bandwidth", "1 Gbps", minimum="1 Mbps", maximum="1 Tbps"),
            ["1 Mbps", "125 GB/s"],
            ["1 kbps", "1001 Gbps"],
            "a bandwidth such as '10 Gbps', from 1 Mbps to 1 Tbps",
        ),
        (declare("duration", "1 s", maximum="1 s"), ["0", "1000 ms"], ["1001 ms"], "at most 1 s"),
    ],
)
def test_ranges(parameter: Parameter, inside: list[str], outside: list[str], words: str) -> None:
    for text in inside:
        parameter.convert(text)
    for text in outside:
        with pytest.raises(InputError, match="out of range") as caught:
            parameter.convert(text)
        assert words in str(caught.value)


@given(st.floats(min_value=1e-9, max_value=1e15), st.sampled_from(["bandwidth", "size", "duration"]))
def test_canonical_quantities_keep_the_amount_and_stay_as_they_are(amount: float, kind: str) -> None:
    unit, parse = {
        "bandwidth": ("B/s", units.parse_bandwidth),
        "size": ("B", units.parse_bytes),
        "duration": ("s", units.parse_duration),
    }[kind]
    if kind == "size":
        amount = float(math.ceil(amount))  # whole bytes
    text = declare(kind).convert(f"{amount!r} {unit}")
    assert isinstance(text, str)
    assert parse(text) == pytest.approx(amount, rel=1e-14)
    assert declare(kind).convert(text) == text


WORKERS = Parameter("workers", "integer", 4, "w", minimum=1, full=16)
SEED = Parameter("seed", "integer", 1, "s")
TWO = (
    Chapter(1, "first", "First", (WORKERS, SEED)),
    Chapter(2, "second", "Second", (WORKERS,), reads=("first/results.json",)),
)


def test_precedence() -> None:
    """Command line beats file beats default; in one source a chapter's own value beats a shared one."""
    file = Layer({"workers": "5"}, {"second": {"workers": "6"}}, strict=False)
    assert resolve(TWO, []) == {"first": {"workers": 4, "seed": 1}, "second": {"workers": 4}}
    assert resolve(TWO, [], full=True)["second"] == {"workers": 16}
    assert resolve(TWO, [file], full=True) == {"first": {"workers": 5, "seed": 1}, "second": {"workers": 6}}
    line = parse_assignments(["workers=7"])
    assert [values["workers"] for values in resolve(TWO, [line, file]).values()] == [7, 7]
    line = parse_assignments(["workers=7", "first.workers=8"])
    assert [values["workers"] for values in resolve(TWO, [line, file]).values()] == [8, 7]


@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        (["worker=3"], "unknown parameter 'worker': did you mean 'workers'? the chapters declare workers, seed"),
        (["zzz=3"], "unknown parameter 'zzz': the chapters declare workers, seed"),
        (["frist.seed=3"], "unknown chapter 'frist': did you mean 'first'? there are first, second"),
        (["second.seed=3"], "chapter 'second' has no parameter 'seed': it declares workers"),
        (["workers"], "write NAME=VALUE or CHAPTER.NAME=VALUE"),
        (["a.b.c=1"], "write NAME=VALUE or CHAPTER.NAME=VALUE"),
        (["seed=1", "seed=2"], "--set seed is given twice"),
        (["workers=none"], "parameter 'workers': 'none' is not a whole number; allowed: a whole number, at least 1"),
    ],
)
def test_wrong_names(assignments: list[str], words: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve(TWO, [parse_assignments(assignments)])
    assert words in str(caught.value)


def test_values_for_chapters_that_are_left_out() -> None:
    with pytest.raises(InputError, match="parameter 'seed' belongs to first, which this run leaves out"):
        resolve(TWO, [parse_assignments(["seed=3"])], selected=["second"])
    with pytest.raises(InputError, match="chapter 'first', which this run leaves out"):
        resolve(TWO, [parse_assignments(["first.seed=3"])], selected=["second"])
    assert resolve(TWO, [Layer({"seed": "3"}, strict=False)], selected=["second"])["first"]["seed"] == 3


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("workers: 3\nworkers: 4\n", "line 2: 'workers' is there twice"),
        ("first:\n  seed: 1\n  seed: 2\n", "line 3: 'seed' is there twice"),
        ("workers: [1, 2\n", "line 2: "),
        ("workers: 3\n\tseed: 1\n", "line 2: "),
        ("- workers\n", "write NAME: VALUE lines"),
        ("just text\n", "write NAME: VALUE lines"),
        ("third:\n  seed: 1\n", "unknown chapter 'third'"),
        ("first: 3\n", "first is a chapter"),
        ("a: 1\n---\nb: 2\n", "line 2: "),
        ("? [a, b]\n: 1\n", "line 1: "),
        ("x: \x07\n", "not readable as YAML"),
        ("[" * 5000, "not readable as YAML"),
    ],
)
def test_malformed_file(content: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_parameters_file(file, TWO)
    assert words in str(caught.value)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


def test_file_missing_empty_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none.yaml: No such file"):
        read_parameters_file(tmp_path / "none.yaml", TWO)
    with pytest.raises(InputError, match=r"give --params a YAML file"):
        read_parameters_file(tmp_path, TWO)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00x")
    with pytest.raises(InputError, match=r"not UTF-8 text"):
        read_parameters_file(tmp_path / "binary", TWO)
    (tmp_path / "empty").write_text("# nothing yet\n")
    assert resolve(TWO, [read_parameters_file(tmp_path / "empty", TWO)]) == resolve(TWO, [])
    (tmp_path / "half").write_text("first:\nworkers: 9\n")
    assert resolve(TWO, [read_parameters_file(tmp_path / "half", TWO)])["first"]["workers"] == 9


def test_declarations_are_checked() -> None:
    for wrong in (
        {"kind": "complex"},
        {"name": "two words"},
        {"name": "class"},
        {"kind": "choice"},
        {"choices": ("a",)},
    ):
        with pytest.raises(InputError):
            Parameter(**({"name": "x", "kind": "text", "default": "", "help": ""} | wrong))
    for chapters in (
        (TWO[0], TWO[0]),
        (TWO[1],),
        (Chapter(1, "first", "First", (SEED, SEED)),),
        (Chapter(1, "seed", "Seed", (SEED,)),),
        (Chapter(1, "a", "A"), Chapter(2, "b", "B", reads=("a/unwritten.csv",))),
    ):
        with pytest.raises(InputError):
            check_registry(chapters)


def test_the_studys_own_declarations() -> None:
    check_registry(CHAPTERS)
    for full in (False, True):
        for chapter, values in resolve(CHAPTERS, [], full=full).items():
            declared = next(c for c in CHAPTERS if c.name == chapter).parameters
            assert list(values) == [parameter.name for parameter in declared]
            assert all(len(parameter.describe()) > 5 for parameter in declared)
    numbers = [chapter.number for chapter in CHAPTERS]
    assert numbers == sorted(set(numbers))
    assert with_ancestors(TWO, "second") == TWO
    assert with_ancestors(TWO, "first") == TWO[:1]


@pytest.mark.parametrize("name", ["", "a/b", "..", ".work", "published", "by-hand", "x" * 65, "a b"])
def test_wrong_run_names(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="run name"):
        make_request(Study(Project(tmp_path), TWO), name=name)
    assert check_run_name("lab-1.b_C") == "lab-1.b_C"


def test_a_list_holds_each_value_once():
    parameter = Parameter("counts", "integer", [2, 4], "numbers", many=True)
    with pytest.raises(InputError, match="'counts': 2 is there twice"):
        parameter.convert("[2, 4, 02]")
    assert parameter.convert("[2, 3]") == [2, 3]
