"""Quantities with units: known values, round trips, and what must be refused."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirebound.errors import InputError
from wirebound.units import (
    bounded_bandwidth,
    bounded_bytes,
    bounded_duration,
    format_bandwidth,
    format_bytes,
    format_duration,
    parse_bandwidth,
    parse_bytes,
    parse_duration,
)

POSITIVE = st.floats(min_value=1e-6, max_value=1e15)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_bandwidth, "1 Gbps", 125_000_000),
        (parse_bandwidth, "10Gbps", 1_250_000_000),
        (parse_bandwidth, "1 Gbit/s", 125_000_000),
        (parse_bandwidth, "1.25 GB/s", 1_250_000_000),
        (parse_bandwidth, "1 GiB/s", 2**30),
        (parse_bandwidth, "100 Mb/s", 12_500_000),
        (parse_bytes, "25 MiB", 26_214_400),
        (parse_bytes, "25 MB", 25_000_000),
        (parse_bytes, " 1000 B ", 1000),
        (parse_bytes, "1.5e3 kB", 1_500_000),
        (parse_bytes, "0", 0),
        (parse_duration, "20 us", 20e-6),
        (parse_duration, "20 µs", 20e-6),
        (parse_duration, "5 ms", 5e-3),
        (parse_duration, ".5 s", 0.5),
        (parse_duration, "0", 0),
    ],
)
def test_known_values(parse, text, value):
    assert parse(text) == pytest.approx(value, rel=1e-15)


def test_mebibytes_are_not_megabytes():
    assert parse_bytes("1 MiB") == 2**20
    assert parse_bytes("1 MB") == 10**6


@pytest.mark.parametrize(
    ("parse", "text", "complaint"),
    [
        (parse_bandwidth, "10", "has no unit"),
        (parse_bandwidth, "10 Gbs", "unknown unit 'Gbs'"),
        (parse_bandwidth, "10 GB", "unknown unit 'GB'"),
        (parse_bandwidth, "0 Gbps", "greater than zero"),
        (parse_bandwidth, "-1 Gbps", "not negative"),
        (parse_bandwidth, "1e400 Gbps", "finite"),
        (parse_bandwidth, "fast", "write a number and a unit"),
        (parse_bandwidth, "", "write a number and a unit"),
        (parse_bandwidth, "1 Gbps 2", "write a number and a unit"),
        (parse_bandwidth, "nan Gbps", "write a number and a unit"),
        (parse_bandwidth, "1__0 Gbps", "write a number and a unit"),
        (parse_bandwidth, "1_0 Gbps", "write a number and a unit"),
        (parse_bandwidth, "10\nGbps", "write a number and a unit"),
        (parse_bandwidth, "10 Gbps\n", "write a number and a unit"),
        (parse_bandwidth, "\u0661 Gbps", "write a number and a unit"),
        (parse_bytes, "25", "has no unit"),
        (parse_bytes, "25 Mib", "unknown unit 'Mib'"),
        (parse_bytes, "25 Gbps", "unknown unit 'Gbps'"),
        (parse_duration, "20", "has no unit"),
        (parse_duration, "20 sec", "unknown unit 'sec'"),
        (parse_duration, "-5 ms", "not negative"),
    ],
)
def test_rejects(parse, text, complaint):
    with pytest.raises(InputError, match=complaint) as caught:
        parse(text)
    message = str(caught.value)
    assert repr(text) in message, "the message quotes what was wrong"
    assert "\n" not in message
    assert "such as" in message, "the message shows a right value"


@pytest.mark.parametrize(
    ("parse", "text", "suggested"),
    [
        (parse_bandwidth, "10 gbps", "did you mean 'Gbps'?"),
        (parse_bandwidth, "10 GBps", "did you mean 'Gbps' or 'GB/s'?"),
        (parse_bandwidth, "10 gb/s", "did you mean 'Gb/s' or 'GB/s'?"),
        (parse_bandwidth, "10 Gbs", "did you mean 'Gbps'?"),
        (parse_bytes, "25 mib", "did you mean 'MiB'?"),
        (parse_bytes, "25 kb", "did you mean 'kB'?"),
        (parse_duration, "20 US", "did you mean 'us'?"),
        (parse_duration, "20 msec", "did you mean 'ms'?"),
    ],
)
def test_a_unit_that_is_nearly_right_is_suggested(parse, text, suggested):
    with pytest.raises(InputError) as caught:
        parse(text)
    assert suggested in str(caught.value)


@pytest.mark.parametrize("text", ["20 sec", "20 parsecs"])
def test_a_unit_unlike_all_others_suggests_nothing(text):
    with pytest.raises(InputError) as caught:
        parse_duration(text)
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("parse", "low", "high", "below", "above"),
    [
        (bounded_bandwidth, "1 kbps", "1e12 Gbps", "0.999 kbps", "1.001e12 Gbps"),
        (bounded_bytes, "1 B", "1000 TB", "0.999 B", "1e308 TB"),
        (bounded_duration, "0", "1e6 s", None, "1e6001 s"),
    ],
)
def test_bounds(parse, low, high, below, above):
    assert parse(low) < parse(high)
    for text in filter(None, (below, above)):
        with pytest.raises(InputError, match="must be between ") as caught:
            parse(text)
        assert repr(text) in str(caught.value)


@given(POSITIVE)
def test_bytes_round_trip(value):
    assert parse_bytes(format_bytes(value, digits=17)) == pytest.approx(value, rel=1e-14)


@given(POSITIVE)
def test_bandwidth_round_trip(value):
    assert parse_bandwidth(format_bandwidth(value, digits=17)) == pytest.approx(value, rel=1e-14)


@given(st.floats(min_value=1e-12, max_value=1e6))
def test_duration_round_trip(value):
    assert parse_duration(format_duration(value, digits=17)) == pytest.approx(value, rel=1e-14)


@given(st.text(max_size=12), st.sampled_from([parse_bytes, parse_bandwidth, parse_duration]))
def test_any_text_is_a_quantity_or_a_users_mistake(text, parse):
    try:
        value = parse(text)
    except InputError:
        return
    assert math.isfinite(value)
    assert value >= 0


def test_shown_values():
    assert format_bytes(102_228_128) == "102.2 MB"
    assert format_bandwidth(1_250_000_000) == "10 Gbps"
    assert format_duration(0.128085802) == "128.1 ms"
    assert format_duration(0) == "0 ns"
