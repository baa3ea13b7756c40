"""The what-if model of Zhang et al. (2020): engine, exact arithmetic and the paper's figures against each other."""

from fractions import Fraction

import pytest

from wirebound.model.library import read_published
from wirebound.study.validate import zhang2020_published
from wirebound.study.zhang2020 import exact_scaling_factor, scaling_factor, whatif_grid


def test_grid_has_every_point_once() -> None:
    grid = whatif_grid()
    assert len(grid) == 270
    assert len({point[:-1] for point in grid}) == 270


def test_engine_equals_exact_arithmetic() -> None:
    for point in whatif_grid():
        assert point.scaling_factor == pytest.approx(float(exact_scaling_factor(*point[:-1])), rel=1e-12)


def test_exact_arithmetic_gives_the_published_table() -> None:
    rows = read_published("zhang2020_whatif_resnet50.csv")
    assert len(rows) == 90
    for row in rows:
        exact = exact_scaling_factor("resnet50", int(row["gpus"]), int(row["link_gbps"]), int(row["compression"]))
        assert float(exact) == pytest.approx(float(Fraction(row["scaling_percent"]) / 100), abs=2e-5)


def test_published_table_beside_the_engine() -> None:
    table = zhang2020_published()
    rows = read_published("zhang2020_whatif_resnet50.csv")
    assert list(table.columns) == ["link_gbps", "gpus", "compression", "published", "modelled", "ape"]
    assert table["published"].tolist() == pytest.approx([float(row["scaling_percent"]) / 100 for row in rows])
    for row in table.itertuples(index=False):
        exact = float(exact_scaling_factor("resnet50", row.gpus, row.link_gbps, row.compression))
        assert row.modelled == pytest.approx(exact, rel=1e-12)
        assert row.ape == pytest.approx(100 * abs(exact - row.published) / row.published, abs=1e-9)


def test_engine_gives_the_simulated_figures_of_the_paper() -> None:
    """Figures 6a and 8a, read off the plots to ±0.7 points; their simulator varies by about as much from run to run."""
    rows = [row for row in read_published("zhang2020_figures.csv") if row["origin"] == "simulated"]
    assert len(rows) == 11
    for row in rows:
        modelled = scaling_factor(row["workload"], int(row["gpus"]), float(row["link_gbps"]), float(row["compression"]))
        assert modelled * 100 == pytest.approx(float(row["value"]), abs=1.5)


@pytest.mark.parametrize(("model", "ratio"), [("resnet50", 2.75), ("resnet101", 2.85), ("vgg16", 7.9)])
def test_ratio_for_95_percent_at_10_gbps_on_64_workers(model: str, ratio: float) -> None:
    assert scaling_factor(model, 64, 10, ratio * 1.01) > 0.95
    assert scaling_factor(model, 64, 10, ratio * 0.99) < 0.95


def test_five_times_compression_leaves_vgg16_at_72_percent() -> None:
    assert scaling_factor("vgg16", 64, 10, 5) == pytest.approx(0.72, abs=0.005)


@pytest.mark.parametrize(("workers", "gbps", "percent"), [(16, 1, 8.0), (16, 10, 57), (2, 1, 14.4), (2, 10, 84.9)])
def test_flat_ring_of_sixteen_counts_more_traffic_than_two_servers_have(
    workers: int, gbps: int, percent: float
) -> None:
    assert scaling_factor("resnet50", workers, gbps) * 100 == pytest.approx(percent, abs=0.5 if percent > 20 else 0.05)


def test_two_servers_measured_beat_the_bound_of_a_flat_ring() -> None:
    measured = {
        row["link_gbps"]: float(row["value"])
        for row in read_published("zhang2020_figures.csv")
        if row["figure"] == "3" and row["gpus"] == "16"
    }
    for gbps in ("1", "10"):
        assert measured[gbps] > scaling_factor("resnet50", 16, float(gbps)) * 100 + 0.7
