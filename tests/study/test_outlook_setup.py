"""The table of the outlook's set-up says what was recorded, and follows other data."""

import copy
import json
from pathlib import Path

import pytest

from wirebound.study.outlook_setup import layer_names, setup_rows
from wirebound.techniques.learning.data import data_set
from wirebound.techniques.learning.models import learning_model

RECORDED = Path(__file__).parents[2] / "data" / "recorded" / "outlook.json"


@pytest.fixture(scope="module")
def recorded():
    return json.loads(RECORDED.read_text(encoding="utf-8"))


def test_layers_count_from_the_input():
    names = layer_names(["5.bias", "1.weight", "3.weight", "10.weight"])
    assert names["1.weight"] == "weights of layer 1"
    assert names["3.weight"] == "weights of layer 2"
    assert names["5.bias"] == "biases of layer 3"
    assert names["10.weight"] == "weights of layer 4"


def test_rows_are_of_the_recorded_models(recorded):
    rows = {row["setting"]: row for row in setup_rows(recorded)}
    for task in ("digits", "mnist"):
        job = recorded["selective"][task]["job"]
        model = learning_model(job["model"], data_set(job["data"]), 0)
        count = sum(weights.numel() for weights in model.parameters())
        assert f"{count:,} values" in rows["model"][task]
        assert rows["steps"][task] == str(job["steps"])
    # 4 times 0.31 ms for 2 · 3/4 of 68,904 bytes
    assert rows["ratios by tensor: link"]["digits"].startswith("663 Mbps")


def test_rows_follow_the_data(recorded):
    other = copy.deepcopy(recorded)
    other["selective"]["digits"]["job"]["workers"] = 7
    rows = {row["setting"]: row for row in setup_rows(other)}
    assert rows["workers"]["digits"] == "7, simulated"
    assert rows["workers"]["mnist"] == "4, simulated"
