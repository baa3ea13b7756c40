"""What the user chose: ``--set``, ``--params`` and the two parameter sets, resolved to every chapter's values."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wirebound.errors import InputError
from wirebound.study.chapter import Chapter, chapter_named
from wirebound.study.parameters import Parameter, Value, suggest

_ASSIGNMENT = re.compile(r"(?:(?P<chapter>\w+)\.)?(?P<name>\w+)=(?P<value>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Layer:
    """The values that one source gives: shared ones by name, and those of single chapters by chapter and name.

    `strict` asks that every value reaches a selected chapter: the command line is strict, a file may also hold values
    for chapters that this run leaves out.
    """

    shared: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    strict: bool = True


def parse_assignments(assignments: Iterable[str]) -> Layer:
    """Read ``NAME=VALUE`` and ``CHAPTER.NAME=VALUE``; raises `InputError` for other text or a name given twice."""
    shared: dict[str, Any] = {}
    own: dict[str, dict[str, Any]] = {}
    for assignment in assignments:
        match = _ASSIGNMENT.fullmatch(assignment)
        if match is None:
            raise InputError(f"--set {assignment!r}: write NAME=VALUE or CHAPTER.NAME=VALUE")
        target = shared if match["chapter"] is None else own.setdefault(match["chapter"], {})
        if match["name"] in target:
            raise InputError(f"--set {assignment.partition('=')[0]} is given twice: give it once")
        target[match["name"]] = match["value"]
    return Layer(shared, own)


def read_parameters_file(path: Path, chapters: Sequence[Chapter]) -> Layer:
    """Read a YAML file: shared names at the top level, and chapter names with their own parameters below them.

    Raises `InputError` in one line for a missing file, malformed YAML, duplicate keys or another structure.
    """
    document = _load_yaml(path)
    if document in (None, ""):
        return Layer(strict=False)
    if not isinstance(document, dict):
        raise InputError(f"{path}: write NAME: VALUE lines, and CHAPTER: with its own below it")
    names = {chapter.name for chapter in chapters}
    own: dict[str, dict[str, Any]] = {}
    shared: dict[str, Any] = {}
    for key, value in document.items():
        if key in names:
            if value == "":
                value = {}
            if not isinstance(value, dict):
                raise InputError(f"{path}: {key} is a chapter: write its parameters below it as NAME: VALUE")
            own[key] = value
        elif isinstance(value, dict):
            raise InputError(f"{path}: unknown chapter {key!r}{suggest(key, sorted(names))}")
        else:
            shared[key] = value
    return Layer(shared, own, strict=False)


def resolve(
    chapters: Sequence[Chapter], layers: Sequence[Layer], *, full: bool = False, selected: Iterable[str] | None = None
) -> dict[str, dict[str, Value]]:
    """Return every chapter's parameter values, converted.

    `layers` come in falling precedence (command line, then file), above the defaults of the quick or the full set; in
    one layer a chapter's own value beats a shared one. `selected` are the names of the chapters that will run (default
    all). Raises `InputError` that names an unknown chapter or parameter, or a value that is not allowed.
    """
    running = {chapter.name for chapter in chapters} if selected is None else set(selected)
    for layer in layers:
        _check_names(chapters, layer, running)
    return {
        chapter.name: {
            parameter.name: _choose(parameter, chapter.name, layers, full=full) for parameter in chapter.parameters
        }
        for chapter in chapters
    }


def _choose(parameter: Parameter, chapter: str, layers: Sequence[Layer], *, full: bool) -> Value:
    for layer in layers:
        for values in (layer.own.get(chapter, {}), layer.shared):
            if parameter.name in values:
                return parameter.convert(values[parameter.name])
    return parameter.default_value(full=full)


def _check_names(chapters: Sequence[Chapter], layer: Layer, running: set[str]) -> None:
    declared = {chapter.name: [parameter.name for parameter in chapter.parameters] for chapter in chapters}
    every_name = list(dict.fromkeys(name for names in declared.values() for name in names))
    for name in layer.shared:
        holders = [chapter for chapter, names in declared.items() if name in names]
        if not holders:
            known = f"the chapters declare {', '.join(every_name)}"
            raise InputError(f"unknown parameter {name!r}{suggest(name, every_name) or ':'} {known}")
        if layer.strict and not running.intersection(holders):
            raise InputError(f"parameter {name!r} belongs to {', '.join(holders)}, which this run leaves out")
    for chapter, values in layer.own.items():
        names = declared[chapter_named(chapters, chapter).name]
        for name in values:
            if name not in names:
                known = f"it declares {', '.join(names)}" if names else "it declares none"
                raise InputError(f"chapter {chapter!r} has no parameter {name!r}{suggest(name, names) or ':'} {known}")
        if layer.strict and chapter not in running:
            raise InputError(f"--set for chapter {chapter!r}, which this run leaves out")


def _load_yaml(path: Path) -> Any:
    """Read a YAML file whose scalars all stay text; duplicate keys are errors."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}: give --params a YAML file") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text: give --params a YAML file") from None
    try:
        _reject_duplicate_keys(path, yaml.compose(text, Loader=yaml.BaseLoader))
        return yaml.load(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InputError(f"{path}{line}: {error.problem}: write NAME: VALUE lines") from None
    except (yaml.YAMLError, RecursionError) as error:
        reason = (str(error) or "it is nested too deeply").splitlines()[0]
        raise InputError(f"{path} is not readable as YAML: {reason}") from None


def _reject_duplicate_keys(path: Path, document: Any) -> None:
    """Look through the top level and the mappings right below it, which is all that a file may have."""
    import yaml

    below = [value for _, value in document.value] if isinstance(document, yaml.MappingNode) else []
    for node in (document, *below):
        seen: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            name = str(key.value)
            if name in seen:
                raise InputError(f"{path} line {key.start_mark.line + 1}: {name!r} is there twice: keep one of them")
            seen.add(name)
