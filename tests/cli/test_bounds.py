"""Values of a job's options that nobody means: each is refused with the range that its option has."""

import pytest

JOB = ["--workload", "resnet50", "--gpus", "64", "--bandwidth", "10 Gbps", "--method", "wfbp-a2a"]

#: Values beyond what anybody means, one option at a time, with the range that the message must name.
BEYOND = {
    "between 1 kbps and 1e12 Gbps": [
        ("--bandwidth", "1e300 Gbps"),
        ("--bandwidth", "1e400 Gbps"),
        ("--bandwidth", "999 bps"),
        ("--bandwidth", "8 Gbps..1e13 Gbps"),
        ("--intra-bandwidth", "1 bps"),
    ],
    "between 0 and 1,000,000 s": [
        ("--latency", "1e99 s"),
        ("--latency", "1 us..1e99 s"),
        ("--intra-latency", "1000001 s"),
        ("--collective", "in-network:512x256@1e99s"),
    ],
    "between 1 B and 1e6 TB": [
        ("--bucket-cap", "0.1 B"),
        ("--bucket-cap", "1e99 GiB"),
        ("--first-bucket-cap", "0.999 B"),
        ("--compress-from", "1.1e6 TB"),
    ],
    "between 1 and 1e12": [("--compression", "1e308"), ("--compression", "0.99"), ("--compression", "inf")],
    "between 0.000001 and 1": [
        ("--utilization", "1e-300"),
        ("--utilization", "1.01"),
        ("--compressor", "topk:1e-300"),
    ],
    "between 0 and 0.999999": [("--incast", "0.9999999"), ("--incast", "-1"), ("--incast", "nan")],
}


@pytest.mark.parametrize("command", ["predict", "messages", "need", "advise"])
@pytest.mark.parametrize(
    ("option", "value", "range_"), [(*given, allowed) for allowed, cases in BEYOND.items() for given in cases]
)
def test_values_that_nobody_means_are_refused_with_the_range(wirebound, command, option, value, range_):
    asked = ["--target", "0.9", "--solve", "gpus"] if command == "need" else []
    code, out, err = wirebound(command, *JOB, *asked, option, value)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert err.startswith(f"wirebound: error: {option}")
    assert err.rstrip().endswith(range_)


def test_so_is_the_bandwidth_of_a_devices_memory_and_a_target(wirebound):
    slow = ["--compressor", "topk:0.1", "--device-memory-bandwidth", "1 bps"]
    for command in (["predict", *JOB, *slow], ["need", *JOB, "--solve", "gpus", "--target", "1e-300"]):
        code, out, err = wirebound(*command)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert command[-2] in err
        assert "must be " in err
        assert "between " in err


@pytest.mark.parametrize(
    "values",
    [
        ["--bandwidth", "1 kbps"],
        ["--bandwidth", "1e12 Gbps", "--latency", "1e6 s"],
        ["--compression", "1e12", "--utilization", "1e-6", "--compress-from", "0"],
        ["--compressor", "topk:1e-6", "--device-memory-bandwidth", "1 kbps"],
        ["--bucket-cap", "1 B", "--first-bucket-cap", "1000 TB", "--method", "ddp"],
    ],
)
def test_the_ends_of_the_ranges_are_taken_and_answers_stay_numbers(document, values):
    found = document("predict", *JOB, *values)
    assert 0 < found["scaling_factor"] <= 1
    assert found["iteration_s"] < 1e15


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--bandwidth", "1e300 Gbps"),
        ("--latency", "x"),
        ("--utilization", "2"),
        ("--intra-bandwidth", "1 bps"),
        ("--device-memory-bandwidth", "1 bps"),
    ],
)
def test_a_wrong_value_is_refused_also_where_nothing_uses_it(wirebound, option, value):
    code, out, err = wirebound("messages", "--workload", "resnet50", "--method", "ddp", option, value)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert err.startswith(f"wirebound: error: {option}")
