"""A verdict is a function of results: the published figures give the book's verdicts, altered ones give others."""

import math

from wirebound.study import findings

USED = {"ResNet-50": 8.6, "ResNet-101": 11.9, "VGG-16": 31.1}
SETTING = {"link_gbps": 10, "target": 0.95}
NEEDED = {"ResNet-50": 2.75, "ResNet-101": 2.85, "VGG-16": 7.9}


def test_used_bandwidth_is_that_of_the_largest_user():
    finding = findings.used_bandwidth(USED, 32, 100)
    assert finding.verdict == findings.IN_PART
    assert "that of VGG-16, the largest;" in finding.evidence
    assert "9–12 Gbps" in finding.evidence


def test_used_bandwidth_holds_when_all_use_it_and_fails_when_none_does():
    one_other = findings.used_bandwidth({"A": 31.0, "B": 12.1}, 32, 100)
    assert one_other.evidence.endswith("B uses 12 Gbps.")
    assert findings.used_bandwidth(dict.fromkeys(USED, 31.0), 32, 100).verdict == findings.HOLDS
    assert findings.used_bandwidth(dict.fromkeys(USED, 80.0), 32, 100).verdict == findings.FAILS


def test_ratio_suffices_for_some_models():
    finding = findings.ratio_suffices(NEEDED, dict.fromkeys(NEEDED, 72.0), 5, **SETTING)
    assert finding.verdict == findings.IN_PART
    assert finding.evidence.startswith("Needed for 95 %: ResNet-50 2.75×")
    assert "VGG-16 is 72 %" in finding.evidence
    assert "ResNet-50 is" not in finding.evidence


def test_ratio_suffices_flips_with_the_limit_and_with_unreachable_targets():
    assert findings.ratio_suffices(NEEDED, NEEDED, 8, **SETTING).verdict == findings.HOLDS
    assert findings.ratio_suffices(NEEDED, NEEDED, 2, **SETTING).verdict == findings.FAILS
    unreachable = findings.ratio_suffices({"A": None}, {"A": 60.0}, 5, **SETTING)
    assert unreachable.verdict == findings.FAILS
    assert "A no ratio" in unreachable.evidence


def test_upper_bound_counts_violations_beyond_the_reading_error():
    cases = [("two servers", 12.5, 8.0), ("eight servers", 7.5, 7.7)]
    finding = findings.upper_bound(cases, reading_error=0.7)
    assert finding.verdict == findings.IN_PART
    assert "1 of 2 measured points lies above" in finding.evidence
    assert "two servers: 12.5 % against 8.0 %" in finding.evidence
    assert findings.upper_bound([("two servers", 8.5, 8.0)], reading_error=0.7).verdict == findings.HOLDS
    assert findings.upper_bound(cases[:1], reading_error=0.7).verdict == findings.FAILS


def test_one_bandwidth_depends_on_the_spread_between_models():
    assert findings.one_bandwidth({"A": [14, 15, 16], "B": [32, 36, 39]}).verdict == findings.FAILS
    assert findings.one_bandwidth({"A": [14, 15, 16], "B": [15, 16, 18]}).verdict == findings.HOLDS


def test_reproducible_names_the_farthest_value():
    near, far = ("near", 54.1, 54.0), ("far", 98.6, 90.0)
    finding = findings.reproducible([near, far], reading_error=0.7)
    assert finding.verdict == findings.IN_PART
    assert "farthest is far" in finding.evidence
    assert findings.reproducible([near], reading_error=0.7).verdict == findings.HOLDS
    assert findings.reproducible([far], reading_error=0.7).verdict == findings.FAILS


def test_almost_linear_needs_every_model():
    assert findings.almost_linear({"A": 99.5, "B": 99.1}, 99, 100).verdict == findings.HOLDS
    assert findings.almost_linear({"A": 99.5, "B": 90.0}, 99, 100).verdict == findings.IN_PART
    assert findings.almost_linear({"A": 50.0}, 99, 100).verdict == findings.FAILS


def test_limited_gain_depends_on_gains_and_names_the_largest():
    gains = {"ResNet-50, 10 GbE": 1.40, "BERT-Base, 10 GbE": 1.10}
    finding = findings.limited_gain(gains, 1.25, slower=["BERT-Base, 10 GbE"])
    assert finding.verdict == findings.IN_PART
    assert "1.40× (ResNet-50, 10 GbE)" in finding.evidence
    assert "In 1 setting overlapping" in finding.evidence
    assert findings.limited_gain(gains, 1.5, slower=[]).verdict == findings.HOLDS
    assert findings.limited_gain(gains, 1.05, slower=[]).verdict == findings.FAILS


def test_same_network_is_refuted_by_one_equal_throughput():
    refuted = findings.same_network({"A": 0.99, "B": 2.5}, 0.02)
    assert refuted.verdict == findings.FAILS
    assert "1 of 2" in refuted.evidence
    assert "0.990–0.990" in refuted.evidence
    assert "2.50–2.50" in refuted.evidence
    assert findings.same_network({"A": 1.8, "B": 2.5}, 0.02).verdict == findings.HOLDS
    assert findings.same_network({"A": 0.99}, 0.02).verdict == findings.FAILS


def test_a_bursty_link_is_lightly_loaded_and_swings():
    swinging = findings.bursty_link([0.0, 1.0, 0.0, 0.02], [0.01] * 4, 10)
    assert swinging.verdict == findings.HOLDS
    assert "26% busy. In spans of 10 ms it is idle (below 10%) 75% of the time, and full (from 90% up) 25%" in (
        swinging.evidence
    )
    assert findings.bursty_link([0.3, 0.2, 0.4], [0.01] * 3, 10).verdict == findings.IN_PART  # lightly, but evenly
    assert findings.bursty_link([0.0, 1.0, 1.0], [0.01] * 3, 10).verdict == findings.IN_PART  # heavily, and swinging
    assert findings.bursty_link([0.8, 0.7], [0.01] * 2, 10).verdict == findings.FAILS
    # A moment of idleness is no swing: time counts, not the number of spans.
    assert findings.bursty_link([0.0, 1.0], [0.001, 0.999], 10).verdict == findings.FAILS


def test_a_finding_prints_claim_verdict_and_evidence():
    text = findings.almost_linear({"A": 99.5}, 99, 100).markdown()
    assert text == (
        "**Claim.** With a fully used network of 100 Gbps, the scaling factor is close to one.\n\n"
        "**It holds.** Simulated: A 99.5 %."
    )


def test_latency_decides_where_it_costs_more_than_five_points():
    costs = {"WFBP": (80.0, 50.0), "BSP": (60.0, 57.0)}
    gains = {"WFBP": (80.0, 90.0), "BSP": (60.0, 95.0)}
    found = findings.latency_decides(costs, gains)
    assert found.verdict == findings.IN_PART
    assert "For WFBP that latency costs more than that bandwidth gives." in found.evidence
    assert findings.latency_decides({"BSP": (60.0, 57.0)}, {"BSP": (60.0, 95.0)}).verdict == findings.FAILS
    assert findings.latency_decides({"WFBP": (80.0, 50.0)}, {"WFBP": (80.0, 90.0)}).verdict == findings.HOLDS


FREE = {
    "digits": {"fp16": (50.0, 0.0, -0.1, 0.1), "DGC": (98.0, 0.4, 0.2, 0.6), "Top-k": (99.0, 3.0, 2.0, 4.0)},
    "text": {"fp16": (50.0, 0.0, -0.1, 0.1), "DGC": (98.0, -0.01, -0.9, 0.9), "Top-k": (99.0, 14.0, 9.0, 19.0)},
}


def free_with(dgc):
    return findings.compression_is_free(FREE | {"text": FREE["text"] | {"DGC": dgc}}, 90, 1)


def test_compression_is_free_where_the_whole_interval_of_one_strong_compressor_keeps_accuracy():
    finding = findings.compression_is_free(FREE, 90, 1)
    assert finding.verdict == findings.HOLDS
    assert (
        "digits: of 2 codes with this saving, losing at most 1 point: 1"
        " (most is saved by DGC: 98.0 %, 0.4 points lost, 0.6 at most), losing more: 1, open: 0" in finding.evidence
    )
    assert "98.0 %, 0.0 points lost, 0.9 at most" in finding.evidence
    assert findings.compression_is_free(FREE, 98.5, 1).verdict == findings.FAILS
    assert "saved by Top-k: 99.0 %" in findings.compression_is_free(FREE, 90, 20).evidence


def test_an_interval_that_holds_the_margin_leaves_it_open():
    straddling = free_with((98.0, 0.0, -0.9, 1.2))  # the mean alone would be free
    assert straddling.verdict == findings.IN_PART
    assert (
        "text: of 2 codes with this saving, losing at most 1 point: 0, losing more: 1, open: 1" in straddling.evidence
    )
    only = {"text": {"DGC": (98.0, 0.0, -0.9, 1.2)}}
    assert findings.compression_is_free(only, 90, 1).verdict == findings.OPEN
    assert free_with((98.0, 2.0, 1.2, 2.8)).verdict == findings.IN_PART
    assert "text: of 2 codes with this saving, losing at most 1 point: 0, losing more: 2, open: 0" in (
        free_with((98.0, math.inf, math.inf, math.inf)).evidence
    )


def test_strong_compression_loses_accuracy_where_the_whole_interval_does():
    at_highest = {"Top-k": (480.0, 12.0, 6.0, 18.0), "DGC": (430.0, 0.5, 0.0, 1.0)}
    finding = findings.strong_compression_loses_accuracy(at_highest, 2)
    assert finding.verdict == findings.IN_PART
    assert "Top-k (480×) loses 12.0 points and DGC (430×) loses 0.5 points." in finding.evidence
    assert findings.strong_compression_loses_accuracy(at_highest, 20).verdict == findings.FAILS
    unsure = {"DGC": (430.0, 15.0, -1.0, 31.0)}
    assert findings.strong_compression_loses_accuracy(unsure, 2).verdict == findings.OPEN
    assert "DGC (430×) loses 15.0 points (open)" in findings.strong_compression_loses_accuracy(unsure, 2).evidence
    diverging = at_highest | {"DGC": (430.0, math.inf, math.inf, math.inf)}
    assert findings.strong_compression_loses_accuracy(diverging, 2).verdict == findings.HOLDS
    assert "DGC (430×) diverges" in findings.strong_compression_loses_accuracy(diverging, 2).evidence
