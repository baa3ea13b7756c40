"""The recorded replays: predicted before they were measured, whole, and naming nobody."""

import hashlib
import itertools
import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

from wirebound.testbed.ordering import pairs_in_order

MBPS = 125_000.0
WORKLOADS = ("resnet50", "vgg16")
METHODS = ("bsp-ps", "bsp-a2a", "wfbp-ps", "wfbp-a2a", "mg-wfbp", "bytescheduler-ps", "bytescheduler-a2a", "ddp")
RECORDED = Path(__file__).parents[2] / "data" / "recorded"
PRIVATE = re.compile(r"/home|/root|/tmp|/Users|\\Users|\d+\.\d+\.\d+\.\d+|hostname")


def recorded(workload: str) -> dict[str, Any]:
    return json.loads((RECORDED / f"testbed_replay_{workload}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("workload", WORKLOADS)
def test_predictions_were_written_first_and_are_those_that_were_compared(workload):
    predictions = (RECORDED / f"testbed_predictions_{workload}.json").read_bytes()
    results = recorded(workload)
    assert hashlib.sha256(predictions).hexdigest() == results["predictions_sha256"]
    assert results["predictions_written_unix_s"] < results["workers_started_unix_s"] < results["measured_unix_s"]
    predicted = {
        (case["ranks"], case["rate_Bps"], case["method"]): case["iteration_s"]
        for case in json.loads(predictions)["predictions"]
    }
    assert {(c["ranks"], c["rate_Bps"], c["method"]): c["predicted_s"] for c in results["cases"]} == predicted
    assert {"cores", "python", "memory_bytes"} <= set(results["machine"])
    assert not PRIVATE.search(predictions.decode() + json.dumps(results))


@pytest.mark.parametrize("workload", WORKLOADS)
def test_no_step_was_faster_than_its_compute_and_its_bytes_allow(workload):
    """A ring sends 2(P−1)/P of the gradients through each link, a worker of servers all of them each way."""
    results = recorded(workload)
    for case in results["cases"]:
        size = sum(message["bytes"] for message in case["messages"])
        wire_s = size / case["rate_Bps"]
        if not case["method"].endswith("-ps"):
            wire_s *= 2 * (case["ranks"] - 1) / case["ranks"]
        # Pacing may let a link run a tenth too fast.
        assert case["measured_s"] > 0.9 * max(wire_s, results["compute_s"])


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_technique_was_replayed_at_every_rate_and_the_links_were_calibrated_at_one(workload):
    results = recorded(workload)
    settings = {(case["ranks"], case["rate_Bps"] / MBPS, case["method"]) for case in results["cases"]}
    assert settings == set(itertools.product((2, 4), (50, 100, 200, 500, 1000), METHODS))
    calibrations = json.loads((RECORDED / f"testbed_predictions_{workload}.json").read_bytes())["calibrations"]
    assert {(c["ranks"], c["servers"]) for c in calibrations} == {(2, 0), (2, 2), (4, 0), (4, 4)}
    assert {calibration["rate_Bps"] for calibration in calibrations} == {200 * MBPS}


def test_the_errors_are_small_and_the_faster_one_is_predicted():
    cases = [case | {"workload": workload} for workload in WORKLOADS for case in recorded(workload)["cases"]]
    errors = [abs(case["predicted_s"] / case["measured_s"] - 1) for case in cases]
    assert statistics.median(errors) <= 0.04
    assert statistics.quantiles(errors, n=10, method="inclusive")[-1] <= 0.12
    for held_out in (False, True):  # all of them, and without the rate of the calibration
        right = pairs = 0
        settings = itertools.product(WORKLOADS, (2, 4), (50, 100, 500, 1000) if held_out else (50, 100, 200, 500, 1000))
        for workload, ranks, rate in settings:
            alike = [c for c in cases if (c["workload"], c["ranks"], c["rate_Bps"]) == (workload, ranks, rate * MBPS)]
            counted = pairs_in_order([c["predicted_s"] for c in alike], [c["measured_s"] for c in alike])
            right, pairs = right + counted[0], pairs + counted[1]
        assert pairs > 200
        assert right / pairs >= 0.95


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_summary_is_that_of_the_cases(workload):
    results = recorded(workload)
    errors = [abs(case["predicted_s"] / case["measured_s"] - 1) for case in results["cases"]]
    assert [case["error"] for case in results["cases"]] == [
        c["predicted_s"] / c["measured_s"] - 1 for c in results["cases"]
    ]
    assert results["median_error"] == pytest.approx(statistics.median(errors))
    assert results["p90_error"] == pytest.approx(statistics.quantiles(errors, n=10, method="inclusive")[-1])
    assert 0 < results["pairs_right"] <= results["pairs"]
