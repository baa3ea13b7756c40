"""The published tables, their description, and what loading says about a bad cell."""

import re
import shutil
from pathlib import Path

import frictionless
import pandas as pd
import pytest

from wirebound.errors import InputError
from wirebound.study.data import load_table, table_names

ROOT = Path(__file__).parents[1]
DATA = ROOT / "data"


def test_description_is_valid_and_fits_every_table() -> None:
    report = frictionless.validate(str(DATA / "datapackage.json"))
    assert report.valid, report.flatten(["name", "rowNumber", "fieldName", "message"])


def test_every_published_table_is_described() -> None:
    assert sorted(table_names()) == sorted(path.stem for path in (DATA / "published").glob("*.csv"))


@pytest.mark.parametrize("name", table_names())
def test_loading_agrees_with_a_plain_reader(name: str) -> None:
    pd.testing.assert_frame_equal(
        load_table(name), pd.read_csv(DATA / "published" / f"{name}.csv"), check_dtype=False, rtol=1e-15
    )


@pytest.mark.parametrize("name", table_names())
def test_every_citation_is_in_the_bibliography(name: str) -> None:
    bibliography = ROOT / "book" / "references.bib"
    if not bibliography.is_file():
        pytest.skip("this checkout has no bibliography")
    known = set(re.findall(r"^@\w+\{\s*([^,\s]+)", bibliography.read_text(encoding="utf-8"), re.MULTILINE))
    assert set(load_table(name)["citation"]) <= known


def test_suspect_rows_are_the_four_series_that_repeat_the_slow_network() -> None:
    table = load_table("shi2020_throughput")
    suspect = table[table["suspect"]]
    assert len(table) == 252
    assert len(suspect) == 16
    slow = table[table["network"] == "10gbe-tcp"]
    pairs = suspect.merge(slow, on=["workload", "method", "gpus"], suffixes=("", "_slow"))
    ratio = pairs["samples_per_s"] / pairs["samples_per_s_slow"]
    assert len(pairs) == 16
    assert f"{ratio.min():.3f}" == "0.982"
    assert f"{ratio.max():.3f}" == "1.005"


def test_suspect_rows_are_far_from_what_the_fast_network_gives_elsewhere() -> None:
    """BERT-Base, the one model without a suspect series, is much faster on 100GbE from 16 GPUs on."""
    table = load_table("shi2020_throughput").set_index(["workload", "network", "method", "gpus"])["samples_per_s"]
    for method in ("bsp-ps", "wfbp-ps"):
        for gpus in (16, 32):
            ratio = table["bert-base", "100gbe-tcp", method, gpus] / table["bert-base", "10gbe-tcp", method, gpus]
            assert ratio > 1.6


def corrupt(folder: Path, table: str, row: int, column: str, cell: str) -> None:
    """Copy the data to `folder` and write `cell` into one cell of `table`; the header is row 1."""
    shutil.copytree(DATA / "published", folder / "published")
    shutil.copy(DATA / "datapackage.json", folder)
    path = folder / "published" / f"{table}.csv"
    lines = path.read_text(encoding="utf-8").splitlines()
    cells = lines[row - 1].split(",")
    cells[lines[0].split(",").index(column)] = cell
    lines[row - 1] = ",".join(cells)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("column", "cell", "problem"),
    [
        ("samples_per_s", "-3", "'-3.0' is below 0"),
        ("samples_per_s", "fast", "'fast' is not a value of the column's type"),
        ("samples_per_s", "inf", "'inf' is not finite"),
        ("samples_per_s", "", "is empty"),
        ("gpus", "4.5", "'4.5' is not a value of the column's type"),
        ("gpus", "5", "'5' is not one of 4, 8, 16, 32"),
        ("suspect", "2", "'2' is not a value of the column's type"),
        ("method", "ring", "'ring' is not one of bsp-ps"),
    ],
)
def test_bad_cell_is_named(tmp_path: Path, column: str, cell: str, problem: str) -> None:
    corrupt(tmp_path, "shi2020_throughput", 7, column, cell)
    with pytest.raises(InputError) as error:
        load_table("shi2020_throughput", tmp_path)
    assert str(error.value).startswith(f"published/shi2020_throughput.csv, row 7, column '{column}': {problem}")
    assert "\n" not in str(error.value)


def test_cell_that_does_not_match_its_pattern_is_named(tmp_path: Path) -> None:
    corrupt(tmp_path, "claims", 7, "id", "UPPER CASE")
    with pytest.raises(InputError, match="row 7, column 'id': 'UPPER CASE' does not match"):
        load_table("claims", tmp_path)


def test_repeated_row_is_named(tmp_path: Path) -> None:
    corrupt(tmp_path, "shi2020_throughput", 3, "method", "bsp-ps")
    with pytest.raises(InputError, match="row 3: repeats the key of a row above"):
        load_table("shi2020_throughput", tmp_path)


def test_missing_column_is_named(tmp_path: Path) -> None:
    corrupt(tmp_path, "claims", 1, "id", "name")
    with pytest.raises(InputError, match=r"claims\.csv: its columns are \['name', "):
        load_table("claims", tmp_path)


def test_unknown_table_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="no published table 'zhang': there are zhang2020_backward"):
        load_table("zhang")
