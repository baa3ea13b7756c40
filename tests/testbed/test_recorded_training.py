"""The recorded training runs: predicted before they were measured, whole, naming nobody, and as near as is claimed."""

import hashlib
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest

from wirebound.testbed.accuracy import accuracy_of_cases
from wirebound.testbed.training_case import METHODS
from wirebound.testbed_figures import comparison_figure, measured_and_predicted_figure, typical_case

MBPS = 125_000.0
RECORDED = Path(__file__).parents[2] / "data" / "recorded"
PRIVATE = re.compile(r"/home|/root|/tmp|/Users|\\Users|\d+\.\d+\.\d+\.\d+|hostname")
NAMES = sorted(
    path.stem.removeprefix("testbed_training_")
    for path in RECORDED.glob("testbed_training_*.json")
    if "predictions" not in path.stem
)


def results_of(name: str) -> dict:
    return json.loads((RECORDED / f"testbed_training_{name}.json").read_text(encoding="utf-8"))


def predictions_of(name: str) -> bytes:
    return (RECORDED / f"testbed_training_predictions_{name}.json").read_bytes()


def key(case: dict) -> tuple:
    return tuple(case[name] for name in ("model", "batch_size", "ranks", "servers", "rate_Bps", "method", "compressor"))


def test_something_is_recorded():
    assert {"2ranks", "4ranks", "compressors", "full", "half_resnet18"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_predictions_were_written_first_and_are_those_that_were_compared(name: str):
    predictions, results = predictions_of(name), results_of(name)
    assert hashlib.sha256(predictions).hexdigest() == results["predictions_sha256"]
    assert results["predictions_written_unix_s"] < results["workers_started_unix_s"] < results["measured_unix_s"]
    predicted = {key(case): case["iteration_s"] for case in json.loads(predictions)["predictions"]}
    assert {key(case): case["predicted_s"] for case in results["cases"]} == predicted
    # One rate was measured before; all else was held out.
    rates = {calibration["rate_Bps"] for calibration in json.loads(predictions)["calibrations"]}
    assert rates == {results["calibration_rate_Bps"]}
    assert all(case["held_out"] == (case["rate_Bps"] not in rates) for case in results["cases"])
    assert {"cores", "python", "memory_bytes"} <= set(results["machine"])
    assert not PRIVATE.search(predictions.decode() + json.dumps(results))


@pytest.mark.parametrize("name", NAMES)
def test_no_step_was_faster_than_its_bytes_allow(name: str):
    """A ring sends 2(P−1)/P of the gradients through each link; a server's link carries P times all, there and back."""
    profiles = {
        (profile["model"], profile["batch_size"]): profile["gradient_bytes"]
        for calibration in json.loads(predictions_of(name))["calibrations"]
        for profile in calibration["profiles"]
    }
    for case in results_of(name)["cases"]:
        size = profiles[case["model"], case["batch_size"]]
        if case["compressor"] is None:
            times = case["ranks"] if case["servers"] else 2 * (case["ranks"] - 1) / case["ranks"]
            assert case["measured_s"] > 0.9 * times * size / case["rate_Bps"]


@pytest.mark.parametrize("name", NAMES)
def test_the_accuracy_is_that_of_the_cases(name: str):
    results = results_of(name)
    found, cases = accuracy_of_cases(results["cases"]), results["cases"]
    errors = np.abs([case["predicted_s"] / case["measured_s"] - 1 for case in cases])
    assert results["accuracy"]["median_error"] == pytest.approx(found.median_error) == pytest.approx(np.median(errors))
    assert (
        results["accuracy"]["p90_error"] == pytest.approx(found.p90_error) == pytest.approx(np.percentile(errors, 90))
    )
    assert (results["accuracy"]["pairs"], results["accuracy"]["right"]) == (found.pairs, found.right)


@pytest.mark.parametrize("name", sorted({*NAMES} - {"compressors"}))
def test_other_rates_are_predicted_as_near_as_is_claimed(name: str):
    found = accuracy_of_cases([case for case in results_of(name)["cases"] if case["held_out"]])
    assert found.median_error < 0.05
    assert found.p90_error < 0.15
    assert found.right_share is not None
    assert found.right_share >= 0.95


def test_the_full_set_has_every_technique_with_servers_and_without_at_every_rate():
    results = results_of("full")
    settings = {(case["ranks"], case["rate_Bps"] / MBPS, case["method"]) for case in results["cases"]}
    assert settings == set(itertools.product((2, 4), (50, 100, 200, 500, 1000), METHODS))
    served = [case for case in results["cases"] if case["servers"]]
    found = accuracy_of_cases(served)
    assert found.median_error < 0.05
    assert found.p90_error < 0.15
    # The servers' links too were calibrated at one rate.
    calibrations = json.loads(predictions_of("full"))["calibrations"]
    assert {c["served"]["rate_Bps"] for c in calibrations} == {results["calibration_rate_Bps"]}


def test_compressors_are_predicted_as_near_as_is_claimed():
    """At half the calibration's rate; all-gathers and coding were timed without training with several ranks."""
    results = results_of("compressors")
    compressed = [case for case in results["cases"] if case["compressor"]]
    assert len(compressed) == 16
    assert all(case["held_out"] for case in compressed)
    found = accuracy_of_cases(compressed)
    assert found.median_error < 0.05
    assert found.p90_error < 0.12
    assert found.right_share is not None
    assert found.right_share >= 0.95
    [calibration] = json.loads(predictions_of("compressors"))["calibrations"]
    assert calibration["gathers"]["rate_Bps"] == results["calibration_rate_Bps"]


@pytest.mark.parametrize("name", NAMES)
def test_the_figures_can_be_drawn(name: str):
    from matplotlib import pyplot as plt

    results, predictions = results_of(name), json.loads(predictions_of(name))["predictions"]
    figure = comparison_figure(results["cases"])
    [axes] = figure.axes
    drawn = sum(len(line.get_xdata()) for line in axes.lines[1:])
    assert drawn == len(results["cases"])
    plt.close(figure)
    index = typical_case(results["cases"])
    figure = measured_and_predicted_figure(results["cases"][index], predictions[index])
    measured, predicted = figure.axes
    assert "measured" in measured.get_title(loc="left")
    assert predicted.get_title(loc="left") == "predicted"
    plt.close(figure)
