"""A small project with a hand-made run: what the book is built from, without executing any chapter."""

import json
import shutil
from pathlib import Path
from typing import Any

import nbformat
import yaml

from wirebound import figures
from wirebound.study.project import Project

ROOT = Path(__file__).resolve().parents[2]

SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 533 245" width="533" height="245">
<rect width="533" height="245" fill="#ffffff"/>
<g stroke="#E3E3E3">{grid}</g>
<path d="M50 215 C 160 205, 200 60, 510 40" fill="none" stroke="#0072B2" stroke-width="2.5"/>
<path d="M50 215 C 200 210, 260 120, 510 75" fill="none" stroke="#D55E00" stroke-width="2.5"/>
<g fill="#333333" font-family="sans-serif" font-size="11">
<text x="230" y="240">network bandwidth</text><text x="430" y="32">ResNet-50</text><text x="450" y="95">VGG-16</text>
</g></svg>
""".replace("{grid}", "".join(f'<path d="M50 {y}H510"/>' for y in range(35, 220, 36)))


def notebook(chapter: str) -> nbformat.NotebookNode:
    """Return an executed chapter with a figure, a table, glue, math, a citation and a computed sentence."""
    import pandas as pd

    downloads = {"table": f"../artifacts/{chapter}/curve.csv", "SVG": f"../artifacts/{chapter}/curve.svg"}
    figure = figures.figure_html(
        SVG, name="curve", alt="Two rising curves", caption="Scaling factor over bandwidth.", downloads=downloads
    )
    columns = {f"column number {i}": [f"value {i}", f"another value {i}"] for i in range(9)}
    table = figures.table_html(
        pd.DataFrame(columns), name="wide", caption="A wide table.", downloads={"table": downloads["table"]}
    )
    title = chapter.replace("_", " ").capitalize()
    v4 = nbformat.v4
    cells = [
        v4.new_markdown_cell(f"# {title}\n\nDoes {{term}}`WFBP` help? {{cite:t}}`zhang2020` say so."),
        _code("workers = 16", tags=["parameters"]),
        _code("chapter.result('best', 12.3, 'Gbps')", _glue("best", "12.3 Gbps")),
        v4.new_markdown_cell(
            "## What the figure shows\n\nThe best is {glue:text}`best`; with $n$ workers it is\n\n"
            "$$ T = 2(P-1)\\,\\alpha + \\frac{2(P-1)}{P}\\,\\frac{S}{B} . $$"
        ),
        _code("chapter.figure(figure)", _html(figure), tags=["hide-input"]),
        _code("chapter.table(table)", _html(table)),
        _code("say(sentence)", _output({"text/markdown": "The claim **holds** for $n = 16$ {cite:p}`shi2020`."})),
        _code("print('done')", v4.new_output("stream", name="stdout", text="done\n")),
    ]
    for count, cell in enumerate((cell for cell in cells if cell.cell_type == "code"), start=1):
        cell.execution_count = count
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return v4.new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def _code(source: str, *outputs: nbformat.NotebookNode, tags: list[str] | None = None) -> nbformat.NotebookNode:
    metadata = {"tags": tags} if tags else {}
    return nbformat.v4.new_code_cell(source, outputs=list(outputs), metadata=metadata)


def _output(data: dict[str, str], **metadata: Any) -> nbformat.NotebookNode:
    return nbformat.v4.new_output("display_data", data=data, metadata=metadata)


def _html(text: str) -> nbformat.NotebookNode:
    return _output({"text/html": text, "text/plain": "<IPython.core.display.HTML object>"})


def _glue(name: str, text: str) -> nbformat.NotebookNode:
    prefix = "application/papermill.record/"
    return _output({f"{prefix}text/plain": repr(text)}, scrapbook={"mime_prefix": prefix, "name": name})


def write_run(project: Project, chapters: list[str], name: str = "quick") -> Path:
    """Write a run of the given chapters, as `wirebound run` publishes one."""
    run = project.runs / name
    (run / "notebooks").mkdir(parents=True)
    for chapter in chapters:
        nbformat.write(notebook(chapter), run / "notebooks" / f"{chapter}.ipynb")
        folder = run / "artifacts" / chapter
        folder.mkdir(parents=True)
        (folder / "curve.csv").write_text("bandwidth_gbps,scaling_factor\n1,0.2\n", encoding="utf-8")
        (folder / "curve.svg").write_text(SVG, encoding="utf-8")
    for document in ("results", "live", "manifest"):
        (run / f"{document}.json").write_text(json.dumps({"results": {}, "files": {}}), encoding="utf-8")
    return run


def make_project(root: Path, chapters: list[str] | None = None) -> Project:
    """Make a project with the book's own sources; with `chapters`, a small one: an intro page and these chapters."""
    project = Project(root)
    project.notebooks.mkdir(parents=True)
    shutil.copytree(ROOT / "book", project.book, ignore=shutil.ignore_patterns("_build"))
    for name in ("pyproject.toml", "CITATION.cff"):
        shutil.copyfile(ROOT / name, root / name)
    if chapters is not None:
        for page in project.book.glob("*.md"):
            if page.name != "cite.md":
                page.unlink()
        glossary = "# A small book\n\n:::{glossary}\nWFBP\n  Wait-free backpropagation.\n:::\n"
        (project.book / "intro.md").write_text(glossary, encoding="utf-8")
        toc = {
            "format": "jb-book",
            "root": "intro",
            "chapters": [{"file": f"notebooks/{chapter}"} for chapter in chapters] + [{"file": "cite"}],
        }
        (project.book / "_toc.yml").write_text(yaml.safe_dump(toc), encoding="utf-8")
    return project
