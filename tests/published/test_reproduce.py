"""The commands `reproduce` and `validate`: files, columns, figures, mistakes."""

import csv
import hashlib
import json
from pathlib import Path

import pytest

from wirebound.cli import main
from wirebound.model.library import read_published
from wirebound.study.zhang2020 import exact_scaling_factor


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


def test_shi2020_table_has_the_published_rows(tmp_path: Path) -> None:
    out = tmp_path / "shi2020.csv"
    assert command("reproduce", "shi2020", "--out", str(out)) == 0
    rows = rows_of(out)
    names = {"ResNet-50": "resnet50", "BERT-Base": "bert-base", "BERT-Large": "bert-large"}
    columns = {
        **{"batch_per_gpu": "samples_per_gpu", "nominal_gbps": "link_gbps", "gpus": "gpus"},
        **{"throughput_1gpu": "single_gpu_per_s", "throughput": "samples_per_s"},
        **{"throughput_std": "std_per_s", "suspect": "suspect"},
    }
    ours = {
        (names[row["model"]], row["network"].lower(), row["method"].lower(), *(float(row[c]) for c in columns))
        for row in rows
    }
    published = read_published("shi2020_throughput.csv")
    assert len(published) == len(rows) == 252
    assert ours == {
        (row["workload"], row["network"], row["method"], *(float(row[c]) for c in columns.values()))
        for row in published
    }
    # Digest of the sorted lines of the authors' own table, made apart from this package.
    lines = sorted(
        ",".join([row["model"], row["network"], row["method"], *(repr(float(row[c])) for c in columns)]) + "\n"
        for row in rows
    )
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    assert digest == "1040010bb846e89a78ff5c35376f40992e8052706a9a51412dd927c6ed9eb9d8"


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
    names = [
        "zhang2020",
        "zhang2020-measured",
        "shi2020",
        "shi2020-transfer",
        "collectives",
        "traces",
        "testbed",
        "cases",
    ]
    assert list(suites) == names
    for figures in suites.values():
        assert {"points", "held_out", "mean_ape", "median_ape", "p90_ape"} <= set(figures)
    zhang = suites["zhang2020"]
    assert (zhang["points"], zhang["held_out"]) == (90, 90)
    # The published values have six digits; a microsecond of a message more or less is some thousandths of a percent.
    assert 0 < zhang["mean_ape"] < 1e-3
    assert zhang["p90_ape"] < 5e-3
    assert zhang["self_check"]["points"] == 270
    assert zhang["self_check"]["largest_absolute_error"] < 1e-13
    # Real networks stay far from full utilization: that is the paper's finding, not an error of the arithmetic.
    assert 15 < suites["zhang2020-measured"]["mean_ape"] < 35
    assert suites["zhang2020-measured"]["measured_above_model"] >= 2
    assert suites["shi2020"]["held_out"] == 172
    assert suites["shi2020"]["without_bytescheduler_a2a"]["points"] == 136
    assert suites["shi2020-transfer"]["held_out"] == 76
    assert suites["collectives"]["median_ape"] < suites["collectives"]["affine"]["median_ape"]
    assert sum(suites["cases"]["agree"].values()) >= 6


def test_validate_one_suite_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("validate", "--suite", "zhang2020") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1].split()[:2] == ["zhang2020", "90"]
    assert "270 points against exact fractions" in lines[2]


def test_suites_of_traces_and_of_the_testbed_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("validate", "--suite", "traces", "--suite", "testbed") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["traces", "from", "testbed"]
    assert lines[1].split()[1] == "3"
    assert "pairs of methods over a tenth apart in the right order" in lines[-1]


def test_unknown_suite_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("validate", "--suite", "zhang") == 2
    assert "unknown suite 'zhang'" in capsys.readouterr().err
