"""The published tables as data frames, checked against their description in ``datapackage.json`` on loading."""

import json
import math
from importlib.resources.abc import Traversable
from typing import Any

import pandas as pd
import pandera.errors
import pandera.pandas as pa

from wirebound.errors import InputError
from wirebound.model.library import data_folder

_DTYPES = {"string": "str", "integer": "Int64", "number": "Float64", "boolean": "boolean"}


def table_names(folder: Traversable | None = None) -> tuple[str, ...]:
    """Return the names of the described tables; `folder` is another folder with a ``datapackage.json``."""
    return tuple(_resources(folder or data_folder()))


def load_table(name: str, folder: Traversable | None = None) -> pd.DataFrame:
    """Return the published table `name`, such as ``"shi2020_throughput"``, with the columns that its description gives.

    Every cell is checked: type, range, allowed values, presence, uniqueness of the key. Missing cells are ``NaN``, so
    an integer column with one is of floats.
    `folder` is another folder with a ``datapackage.json``. Raises `InputError` for an unknown table, or one that names
    file, row (the header is row 1) and column of the first bad cell.
    """
    folder = folder or data_folder()
    resources = _resources(folder)
    name = name.removesuffix(".csv")
    if name not in resources:
        raise InputError(f"no published table {name!r}: there are {', '.join(resources)}")
    resource = resources[name]
    fields = resource["schema"]["fields"]
    with folder.joinpath(resource["path"]).open(encoding="utf-8") as file:
        try:
            text = pd.read_csv(file, dtype="str", keep_default_na=False, na_values=[""], skip_blank_lines=False)
        except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
            raise InputError(f"{resource['path']}: not a table of comma-separated values: {error}") from error
    expected = [field["name"] for field in fields]
    if list(text.columns) != expected:
        raise InputError(f"{resource['path']}: its columns are {list(text.columns)}, not {expected}")
    if len(text) != resource["rows"]:
        raise InputError(
            f"{resource['path']}: it has {len(text)} rows, but its description says {resource['rows']}: is it cut off?"
        )
    for field in fields:
        if field["type"] == "boolean":
            meaning = dict.fromkeys(field["trueValues"], True) | dict.fromkeys(field["falseValues"], False)
            text[field["name"]] = text[field["name"]].map(lambda cell, meaning=meaning: meaning.get(cell, cell))
    try:
        checked = schema_of(resource).validate(text, lazy=True)
    except pandera.errors.SchemaErrors as error:
        raise InputError(_first_failure(resource["path"], error.failure_cases)) from None
    for field in fields:
        column = checked[field["name"]]
        if field["type"] == "boolean":
            checked[field["name"]] = column.astype("bool")
        elif field["type"] == "integer" and not column.isna().any():
            checked[field["name"]] = column.astype("int64")
        elif field["type"] in ("integer", "number"):
            checked[field["name"]] = column.astype("float64")
    return checked


def schema_of(resource: dict[str, Any]) -> pa.DataFrameSchema:
    """Return the pandera schema that a described table asks for: types, constraints and primary key."""
    columns = {}
    for field in resource["schema"]["fields"]:
        limits = field["constraints"]
        checks = [pa.Check.lt(math.inf, error="is not finite")] if field["type"] == "number" else []
        if "minimum" in limits:
            checks.append(pa.Check.ge(limits["minimum"], error=f"is below {limits['minimum']}"))
        if "maximum" in limits:
            checks.append(pa.Check.le(limits["maximum"], error=f"is above {limits['maximum']}"))
        if "enum" in limits:
            allowed = ", ".join(str(value) for value in limits["enum"])
            checks.append(pa.Check.isin(limits["enum"], error=f"is not one of {allowed}"))
        if "pattern" in limits:
            pattern = rf"(?:{limits['pattern']})\Z"
            checks.append(pa.Check.str_matches(pattern, error=f"does not match {limits['pattern']}"))
        columns[field["name"]] = pa.Column(
            _DTYPES[field["type"]], checks, nullable=not limits.get("required", False), coerce=True
        )
    return pa.DataFrameSchema(
        columns, unique=resource["schema"].get("primaryKey"), report_duplicates="exclude_first", strict=True
    )


def _resources(folder: Traversable) -> dict[str, dict[str, Any]]:
    """Table name to its description."""
    package = json.loads(folder.joinpath("datapackage.json").read_text(encoding="utf-8"))
    return {
        resource["path"].rsplit("/", 1)[-1].removesuffix(".csv"): resource
        for resource in package["resources"]
        if resource["path"].endswith(".csv")
    }


def _first_failure(path: str, cases: pd.DataFrame) -> str:
    """One line for the topmost bad cell; pandera lists the failures of all columns and checks."""
    # A cell that is not of its column's type makes the column's other checks fail too: types come first.
    cases = cases.assign(check=cases["check"].astype(str))
    of_type = cases["check"].str.startswith(("coerce_dtype", "dtype"))
    case = cases.assign(later=~of_type).sort_values(["later", "index"], kind="stable").iloc[0]
    row = f", row {int(case['index']) + 2}" if pd.notna(case["index"]) else ""
    if not case["later"]:
        problem = f"'{case['failure_case']}' is not a value of the column's type"
    elif case["check"] == "not_nullable":
        problem = "is empty"
    elif case["check"] == "multiple_fields_uniqueness":
        return f"{path}{row}: repeats the key of a row above; correct the table"
    else:
        problem = f"'{case['failure_case']}' {case['check']}"
    return f"{path}{row}, column {case['column']!r}: {problem}; correct the table"
