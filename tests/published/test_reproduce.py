"""The commands `reproduce` and `validate`: files, columns, figures, mistakes."""

import csv
import json
from pathlib import Path

import pytest

from wirebound.cli import main
from wirebound.study.zhang2020 import exact_scaling_factor

REFERENCE = Path(__file__).parents[3] / "shared" / "reference"


def command(*arguments: str) -> int:
    """Run the command line in this process and return its exit code."""
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    assert isinstance(stop.value.code, int)
    return stop.value.code


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_whatif_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "whatif.csv"
    assert command("reproduce", "zhang2020-whatif", "--out", str(out), "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 270
    rows = rows_of(out)
    assert list(rows[0]) == ["model", "N", "link_gbps", "compression", "scaling_factor"]
    assert len(rows) == 270
    for row in rows:
        exact = exact_scaling_factor(row["model"], int(row["N"]), int(row["link_gbps"]), int(row["compression"]))
        assert float(row["scaling_factor"]) == pytest.approx(float(exact), abs=1e-8)


def test_shi2020_table(tmp_path: Path) -> None:
    out = tmp_path / "shi2020.csv"
    assert command("reproduce", "shi2020", "--out", str(out)) == 0
    rows = rows_of(out)
    assert list(rows[0]) == [
        *("model", "batch_per_gpu", "network", "nominal_gbps", "method", "gpus", "throughput_1gpu", "throughput"),
        *("throughput_std", "suspect", "predicted_iteration_s", "measured_iteration_s", "split"),
    ]
    splits = [row["split"] for row in rows]
    assert [splits.count(split) for split in ("calibration", "held_out", "suspect")] == [64, 172, 16]
    for row in rows:
        measured = int(row["batch_per_gpu"]) * int(row["gpus"]) / float(row["throughput"])
        assert float(row["measured_iteration_s"]) == pytest.approx(measured, abs=1e-9)
        assert float(row["predicted_iteration_s"]) > 0


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="reference material is not beside this checkout")
def test_shi2020_table_has_the_rows_of_the_reference(tmp_path: Path) -> None:
    out = tmp_path / "shi2020.csv"
    assert command("reproduce", "shi2020", "--out", str(out)) == 0
    reference = rows_of(REFERENCE / "shi2020_throughput.csv")
    text = ("model", "network", "method")
    numbers = tuple(column for column in reference[0] if column not in text)
    ours = {tuple(row[c] for c in text) + tuple(float(row[c]) for c in numbers) for row in rows_of(out)}
    assert ours == {tuple(row[c] for c in text) + tuple(float(row[c]) for c in numbers) for row in reference}


def test_unknown_table_is_one_line_with_the_known_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("reproduce", "zhang", "--out", str(tmp_path / "x.csv")) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "unknown table 'zhang'" in error
    assert "zhang2020-whatif, shi2020" in error
    assert list(tmp_path.iterdir()) == []


def test_missing_folder_is_one_line_and_an_older_file_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("reproduce", "zhang2020-whatif", "--out", str(tmp_path / "missing" / "x.csv")) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "does not exist: create it first" in error
    older = tmp_path / "older.csv"
    older.write_text("mine", encoding="utf-8")
    assert command("reproduce", "nothing", "--out", str(older)) == 2
    assert older.read_text(encoding="utf-8") == "mine"


def test_writing_over_a_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("reproduce", "zhang2020-whatif", "--out", str(tmp_path)) == 2
    assert "is a folder" in capsys.readouterr().err


def test_validate_gives_every_suite(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("validate", "--json") == 0
    suites = json.loads(capsys.readouterr().out)["suites"]
    assert list(suites) == ["zhang2020", "zhang2020-measured", "shi2020", "shi2020-transfer"]
    for figures in suites.values():
        assert {"points", "held_out", "mean_ape", "median_ape", "p90_ape"} <= set(figures)
    assert suites["zhang2020"]["mean_ape"] < 1e-10
    # Real networks stay far from full utilization: that is the paper's finding, not an error of the arithmetic.
    assert 15 < suites["zhang2020-measured"]["mean_ape"] < 35
    assert suites["zhang2020-measured"]["measured_above_model"] >= 2
    assert suites["shi2020"]["held_out"] == 172
    assert suites["shi2020"]["without_bytescheduler_a2a"]["points"] == 136
    assert suites["shi2020-transfer"]["held_out"] == 76


def test_validate_one_suite_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("validate", "--suite", "zhang2020") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[1].split()[:2] == ["zhang2020", "270"]


def test_unknown_suite_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("validate", "--suite", "zhang") == 2
    assert "unknown suite 'zhang'" in capsys.readouterr().err
