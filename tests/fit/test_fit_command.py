"""`wirebound fit`: its document, and one line for every kind of bad file."""

import json
import math
import subprocess
import sys

import pytest

from wirebound.cli import main as cli
from wirebound.errors import InputError
from wirebound.fit.samples import read_samples
from wirebound.profile.schema import CollectiveTiming, Profile, save_profile

GOOD = "bytes,seconds\n" + "".join(f"{2**power},{1e-4 + 1e-9 * 2**power!r}\n" for power in range(10, 21))


def run(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        cli(["fit", *map(str, arguments)])
    captured = capsys.readouterr()
    return ended.value.code, captured.out, captured.err


def profile(*groups):
    timings = tuple(
        CollectiveTiming("ring-allreduce", ranks, 2**power, 1e-4 + 1e-9 * 2**power, rate_Bps=rate)
        for ranks, rate in groups
        for power in range(10, 21)
    )
    return Profile(name="p", source="a test", machine={}, steps=0, collectives=timings)


def test_csv(tmp_path, capsys):
    file, out = tmp_path / "times.csv", tmp_path / "FIT.json"
    file.write_text("\ufeff# a remark\n" + GOOD + "\n", encoding="utf-8")
    code, text, errors = run([file, "--json", "--out", out], capsys)
    assert (code, errors) == (0, "")
    document = json.loads(text)
    assert document == json.loads(out.read_text(encoding="utf-8"))
    assert document["curves"]["best"] == document["curves"]["candidates"][0]["name"] == "affine"
    assert document["alpha_s"] == pytest.approx(1e-4, rel=1e-6)
    assert document["beta_s_per_byte"] == pytest.approx(1e-9, rel=1e-6)
    assert document["bandwidth_Bps"] == pytest.approx(1e9, rel=1e-6)
    assert len(document["relative_residuals"]) == len(document["sizes_bytes"]) == 11
    assert len(document["alpha_ci95"]) == len(document["beta_ci95"]) == 2
    assert isinstance(document["verdict"], str)
    assert "link_latency_s" not in document


def test_csv_with_collective(tmp_path, capsys):
    file = tmp_path / "times.csv"
    file.write_text("seconds, bytes\n1.001e-4,100\n2e-4,100000\n1.1e-3,1000000\n", encoding="utf-8")
    code, text, _ = run([file, "--collective", "ring-allreduce", "--ranks", 4, "--json"], capsys)
    document = json.loads(text)
    assert code == 0
    assert document["link_latency_s"] == pytest.approx(1e-4 / 6, rel=1e-5)
    assert len(document["bootstrap"]["alpha_s"]) == len(document["bootstrap"]["beta_s_per_byte"]) == 200
    assert document["link_bandwidth_Bps"] == pytest.approx(1.5e9, rel=1e-5)
    code, text, _ = run([file, "--collective", "ring-allreduce", "--ranks", 4], capsys)
    assert code == 0
    assert "link: latency 16.67 us, bandwidth 12 Gbps" in text
    assert "verdict" in text


def test_profile_tells_its_collective(tmp_path, capsys):
    file = tmp_path / "PROFILE.json"
    save_profile(profile((4, None)), file)
    code, text, _ = run([file, "--json"], capsys)
    document = json.loads(text)
    assert code == 0
    assert (document["collective"], document["ranks"]) == ("ring-allreduce", 4)
    assert document["link_latency_s"] == pytest.approx(1e-4 / 6, rel=1e-6)
    code, _, errors = run([file, "--ranks", 2], capsys)
    assert code == 2
    assert "it has ring-allreduce of 4 ranks" in errors
    save_profile(profile((2, None), (4, 125e6)), file)
    code, _, errors = run([file], capsys)
    assert code == 2
    assert "ring-allreduce of 4 ranks at 1 Gbps: choose" in errors
    code, text, _ = run([file, "--ranks", 2, "--json"], capsys)
    assert json.loads(text)["link_latency_s"] == pytest.approx(5e-5, rel=1e-6)
    save_profile(profile(), file)
    code, _, errors = run([file], capsys)
    assert code == 2
    assert "no collectives" in errors


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "is empty"),
        ("bytes,seconds\n", "no measurements"),
        ("size,time\n1,2\n", "the header 'size,time' is not understood: use bytes,seconds"),
        ("1024,0.1\n2048,0.2\n", "the header"),
        ("bytes,microseconds\n1,2\n", "the header"),
        ("bytes,seconds,ranks\n1,2,3\n", "the header"),
        ("bytes,bytes\n1,2\n", "the header"),
        ("bytes,seconds\n1024,fast\n", "line 2: seconds 'fast' is not a number"),
        ("bytes,seconds\n\n1024,0.1\n1 KiB,0.1\n", "line 4: bytes '1 KiB' is not a number"),
        ("bytes,seconds\n1024,-0.1\n", "line 2: seconds -0.1 must be between 1e-12 and 1e+09"),
        ("bytes,seconds\n0,0.1\n", "line 2: bytes 0 must be"),
        ("bytes,seconds\n1024,nan\n", "line 2: seconds nan must be"),
        ("bytes,seconds\n1024,inf\n", "line 2: seconds inf must be"),
        ("bytes,seconds\n1024\n", "line 2: has 1 values"),
        ("bytes,seconds\n1024,0.1,9\n", "line 2: has 3 values"),
        ("bytes,seconds\n1024,0.1\n1024,0.2\n", "at least two sizes"),
        ("bytes,seconds\n0.1,1024\n", "line 2: bytes 0.1 must be a whole number from 1 to 1e+18: are the columns swap"),
        ("seconds,bytes\n1024,0.1\n", "line 2: bytes 0.1 must be a whole number"),
        ("bytes,seconds\n1,1\n1e300,1\n", "line 3: bytes 1e300 must be"),
        ("bytes,seconds\n1,1\n2,1e300\n", "line 3: seconds 1e300 must be between"),
        ("bytes,seconds\n1,1e-300\n2,1\n", "line 2: seconds 1e-300 must be between"),
        ("bytes,seconds\n1," + "1" * 200_000 + "\n", "line 2: is not a line of a CSV file: field larger than"),
        ("bytes;seconds\n1;2\n", "line 1: the header 'bytes;seconds' is not understood"),
        ("bytes;seconds\n1;2\n", "separate the columns with commas"),
        ("bytes\tseconds\n1\t2\n", "separate the columns with commas"),
        ("bytes,seconds\n1;2\n", "separate the columns with commas"),
    ],
)
def test_bad_csv_is_one_line(text, part, tmp_path, capsys):
    file = tmp_path / "bad.csv"
    file.write_text(text, encoding="utf-8")
    code, out, errors = run([file, "--json"], capsys)
    assert (code, out) == (2, "")
    assert len(errors.splitlines()) == 1
    assert part in errors


@pytest.mark.parametrize(
    ("content", "name", "part"),
    [
        (b"\xff\xfe\x00", "bad.csv", "not UTF-8"),
        (b"{", "bad.json", "not whole JSON"),
        (b'{"schema": "wirebound-fit"}', "FIT.json", "is a fit, not a profile"),
    ],
)
def test_bad_files_are_one_line(content, name, part, tmp_path, capsys):
    file = tmp_path / name
    file.write_bytes(content)
    code, _, errors = run([file], capsys)
    assert code == 2
    assert len(errors.splitlines()) == 1
    assert part in errors


def test_other_mistakes(tmp_path, capsys):
    file = tmp_path / "times.csv"
    file.write_text(GOOD, encoding="utf-8")
    for arguments, part in (
        ([tmp_path / "none.csv"], "no such file"),
        ([tmp_path], "is a folder"),
        ([file, "--ranks", 4], "add --collective"),
        ([file, "--collective", "ring-allreduce"], "add --ranks"),
        ([file, "--collective", "carrier-pigeon", "--ranks", 2], "use ring-allreduce"),
        ([file, "--collective", "ring-allreduce", "--ranks", 1], "ranks = 1"),
        ([file, "--out", tmp_path / "nowhere" / "f.json"], "does not exist"),
    ):
        code, out, errors = run(arguments, capsys)
        assert (code, out) == (2, "")
        assert len(errors.splitlines()) == 1
        assert part in errors


def test_long_files_are_read_as_short_ones_are(tmp_path):
    rows = [f"{1e-4 + 1e-9 * size!r},{size}" for size in range(1, 10_001)]
    file = tmp_path / "times.csv"
    read = []
    for extra in ([], ["# a remark"]):  # a remark is read line by line
        file.write_text("\n".join(["seconds,bytes", *rows, *extra]), encoding="utf-8")
        read.append(read_samples(file))
    assert read[0] == read[1]
    assert read[0][0] == list(range(1, 10_001))
    for bad, part in (("1,0.5", "line 10002: bytes 0.5"), ("1e10,5", "line 10002: seconds"), ("1,5,6", "has 3 values")):
        file.write_text("\n".join(["seconds,bytes", *rows, bad]), encoding="utf-8")
        with pytest.raises(InputError, match=part):
            read_samples(file)


@pytest.mark.parametrize("command", ["fit", "profile"])
@pytest.mark.parametrize("seed", ["-1", "9" * 30])
def test_seeds_that_no_generator_takes(command, seed, tmp_path, capsys):
    file = tmp_path / "times.csv"
    file.write_text(GOOD, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        cli([command, *([str(file)] if command == "fit" else []), "--json", "--seed", seed])
    assert ended.value.code == 2
    assert f"--seed {seed} must be between 0 and 4294967295" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "bounds"),
    [
        ("--steps", "-1", "between 1 and 1,000,000"),
        ("--batch", "9" * 20, "between 2, for batch normalization, and 65,536"),
    ],
)
def test_the_probes_options_are_checked_before_anything_heavy_is_imported(option, value, bounds):
    code = f"import sys\nfrom wirebound.cli import main\ntry:\n    main(['profile', '--json', '{option}', '{value}'])\n"
    code += "except SystemExit as end:\n    assert end.code == 2\nassert 'torch' not in sys.modules\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == f"wirebound: error: {option} {value} must be {bounds}\n"


def test_the_input_is_never_the_output(tmp_path, capsys):
    file = tmp_path / "times.csv"
    file.write_text(GOOD, encoding="utf-8")
    code, out, errors = run([file, "--out", tmp_path / "." / "times.csv"], capsys)
    assert (code, out) == (2, "")
    assert "is the file that is read: choose another" in errors
    assert file.read_text(encoding="utf-8") == GOOD


def test_names_from_a_file_do_not_reach_the_terminal_raw(tmp_path, capsys):
    file = tmp_path / "times.csv"
    file.write_text("bytes,seconds\n1,\x1b[31m\x9bred\n", encoding="utf-8")
    code, _, errors = run([file], capsys)
    assert code == 2
    assert "\\x1b[31m" in errors
    assert all(mark.isprintable() for mark in errors[:-1])


@pytest.mark.parametrize(("low", "high"), [(1e-12, 1e9), (1e9, 1e-12), (1e-12, 1e-12), (1e9, 1e9)])
def test_the_most_extreme_values_are_fitted(low, high, tmp_path, capsys):
    file = tmp_path / "times.csv"
    rows = "".join(f"{10**power},{low if power < 9 else high}\n" for power in range(19))
    file.write_text("bytes,seconds\n" + rows, encoding="utf-8")
    code, out, errors = run([file, "--json"], capsys)
    assert (code, errors) == (0, "")
    assert all(math.isfinite(value) for value in json.loads(out)["relative_residuals"])


def test_flat_times_have_no_bandwidth(tmp_path, capsys):
    file = tmp_path / "flat.csv"
    file.write_text("bytes,seconds\n" + "".join(f"{2**power},0.001\n" for power in range(10, 20)), encoding="utf-8")
    code, text, _ = run([file, "--json"], capsys)
    assert code == 0
    assert json.loads(text)["bandwidth_Bps"] is None
