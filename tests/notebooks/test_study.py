"""The real chapters: the published run is what they give, and each also runs by hand."""

import json
import shutil
from pathlib import Path

import nbclient
import nbformat
import pytest

from wirebound.study.chapters import CHAPTERS
from wirebound.study.compare import compare_runs
from wirebound.study.project import Project

NAMES = [chapter.name for chapter in CHAPTERS]


def results(project: Project, run: str = "quick") -> dict[str, dict[str, object]]:
    return json.loads((project.runs / run / "results.json").read_text(encoding="utf-8"))["results"]


def test_the_published_run_is_what_the_chapters_give(study_project: Project):
    comparison = compare_runs(study_project, "published", "quick")
    moved = [result for result in comparison.results if result.change not in ("same", "within")]
    assert not moved, "run `make reference` if the change is meant"
    assert len(comparison.results) == len(results(study_project))


def test_every_chapter_has_headline_results(study_project: Project):
    assert {name.split(".")[0] for name in results(study_project)} == set(NAMES)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        # MODEL figures of Zhang et al. that the book reproduces, each within the plot's reading error or its digits.
        ("compression_ratio.needed_ratio_resnet50", 2.745, 2.755),
        ("compression_ratio.needed_ratio_resnet101", 2.845, 2.855),
        ("compression_ratio.needed_ratio_vgg16", 7.85, 7.95),
        ("compression_ratio.scaling_at_claimed_ratio_vgg16", 71.5, 72.9),
        ("full_utilization.scaling_two_servers_1_gbps_simulated", 7.95, 8.05),
        ("full_utilization.scaling_two_servers_1_gbps_simulated_by_server", 14.35, 14.45),
        ("full_utilization.scaling_two_servers_10_gbps_simulated_by_server", 84.85, 84.95),
        ("full_utilization.effective_bandwidth_resnet50", 14, 16),
        ("full_utilization.effective_bandwidth_vgg16", 32, 39),
        ("profile_network.used_bandwidth_vgg16", 31.05, 31.15),
        ("seven_techniques.scaling_resnet50_bsp_a2a", 60.5, 61.5),
        ("seven_techniques.scaling_resnet50_mg_wfbp", 84.5, 85.5),
    ],
)
def test_published_figures_are_reproduced(study_project: Project, name: str, low: float, high: float):
    assert low < results(study_project)[name]["value"] < high


def test_results_are_all_in_one_place_and_finite(study_project: Project):
    for name, row in results(study_project).items():
        assert set(row) == {"value", "unit", "tolerance", "label"}, name
        assert row["label"], name


def test_a_chapter_runs_by_hand(study_project: Project):
    """As in JupyterLab: from the folder notebooks/, reading what it needs from the last run."""
    source = study_project.notebooks / "validation.ipynb"
    notebook = nbformat.read(source, as_version=4)
    nbclient.NotebookClient(
        notebook, resources={"metadata": {"path": str(source.parent)}}, kernel_name="python3"
    ).execute()
    by_hand = study_project.runs / "by-hand"
    written = json.loads((by_hand / "artifacts" / "validation" / "results.json").read_text(encoding="utf-8"))
    in_run = json.loads((study_project.runs / "quick/artifacts/validation/results.json").read_text(encoding="utf-8"))
    assert written == in_run
    shutil.rmtree(by_hand)


def test_no_folder_of_this_machine_is_published(study_project: Project):
    root = str(study_project.root)
    for path in (study_project.runs / "quick").rglob("*"):
        if path.suffix in {".json", ".ipynb", ".csv", ".svg"}:
            assert root not in path.read_text(encoding="utf-8"), path
            assert str(Path.home()) + "/" not in path.read_text(encoding="utf-8"), path
