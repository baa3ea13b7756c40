"""The recorded replays: predicted before they were measured, whole, and naming nobody."""

import hashlib
import json
import re
from pathlib import Path

import pytest

RECORDED = Path(__file__).parents[2] / "data" / "recorded"
PRIVATE = re.compile(r"/home|/root|/tmp|/Users|\\Users|\d+\.\d+\.\d+\.\d+|hostname")


@pytest.mark.parametrize("workload", ["resnet50", "vgg16"])
def test_predictions_were_written_first_and_are_those_that_were_compared(workload):
    predictions = (RECORDED / f"testbed_predictions_{workload}.json").read_bytes()
    results = json.loads((RECORDED / f"testbed_replay_{workload}.json").read_text(encoding="utf-8"))
    assert hashlib.sha256(predictions).hexdigest() == results["predictions_sha256"]
    assert results["predictions_written_unix_s"] < results["workers_started_unix_s"] < results["measured_unix_s"]
    predicted = {
        (case["ranks"], case["rate_Bps"], case["method"]): case["iteration_s"]
        for case in json.loads(predictions)["predictions"]
    }
    assert {(c["ranks"], c["rate_Bps"], c["method"]): c["predicted_s"] for c in results["cases"]} == predicted
    assert {"cores", "python", "memory_bytes"} <= set(results["machine"])
    assert not PRIVATE.search(predictions.decode() + json.dumps(results))


@pytest.mark.parametrize("workload", ["resnet50", "vgg16"])
def test_no_step_was_faster_than_its_compute_and_its_bytes_allow(workload):
    """A ring sends 2(P−1)/P of the gradients through each link; pacing may let a link run a tenth too fast."""
    results = json.loads((RECORDED / f"testbed_replay_{workload}.json").read_text(encoding="utf-8"))
    for case in results["cases"]:
        size = sum(message["bytes"] for message in case["messages"])
        wire_s = 2 * (case["ranks"] - 1) / case["ranks"] * size / case["rate_Bps"]
        assert case["measured_s"] > 0.9 * max(wire_s, results["compute_s"])
