"""The notebooks are read without a kernel, so what is stored in them must be complete and clean.

nbval compares only outputs that are there: a checked cell without one passes silently. The checker below closes that
gap, and each of its rules is shown to catch a copy broken on purpose.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook, new_output

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
PLOTLY, PNG = "application/vnd.plotly.v1+json", "image/png"
MACHINE_PATH = re.compile(
    r"(?<![\w./])/(?:home|root|work|tmp|usr|var|opt|mnt|Users|private)/[\w.]|[A-Za-z]:\\\\?Users|site-packages|\.venv"
)
MAX_BYTES = 600_000


def problems(notebook: NotebookNode) -> list[str]:
    """One line for each thing wrong with the stored outputs, none when all is well."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    found = []
    counts = [cell.execution_count for cell in code]
    if counts != list(range(1, len(code) + 1)):
        found.append(f"execution counts are {counts}, not 1 to {len(code)}: run all cells in a fresh kernel")
    for index, cell in enumerate(code, start=1):
        checked = "NBVAL_CHECK_OUTPUT" in cell.source or "nbval-check-output" in cell.metadata.get("tags", [])
        if checked and not cell.outputs:
            found.append(f"code cell {index} is checked and has no stored output")
        for output in cell.outputs:
            found += [f"code cell {index} {problem}" for problem in _output_problems(output)]
    return found


def _output_problems(output: NotebookNode) -> list[str]:
    found = []
    if output.output_type == "error":
        found.append(f"stores an error: {output.ename}")
    if output.output_type == "stream" and output.name == "stderr":
        found.append(f"stores stderr: {output.text.strip()[:80]!r}")
    data = output.get("data", {})
    if PLOTLY in data and PNG not in data:
        found.append("has a figure without image/png: nothing to see without a kernel")
    # Base64 of a picture may hold any letters.
    text = json.dumps({**output, "data": {mime: value for mime, value in data.items() if mime != PNG}})
    path = MACHINE_PATH.search(text)
    if path:
        found.append(f"stores a machine path: {text[max(0, path.start() - 10) : path.end() + 20]!r}")
    return found


def _sound() -> NotebookNode:
    """Two cells as a good run stores them: a checked table and a figure."""
    table = new_code_cell("# NBVAL_CHECK_OUTPUT\nprint(1)", execution_count=1)
    table.outputs = [new_output("stream", name="stdout", text="1\n")]
    figure = new_code_cell("figure", execution_count=2)
    figure.outputs = [
        new_output("execute_result", execution_count=2, data={PLOTLY: {"data": [], "layout": {}}, PNG: "/tmp/aaaa"})
    ]
    return new_notebook(cells=[table, figure])


def _no_stored_output(notebook: NotebookNode) -> None:
    notebook.cells[0].outputs = []


def _no_stored_output_by_tag(notebook: NotebookNode) -> None:
    notebook.cells[0].source = "print(1)"
    notebook.cells[0].metadata["tags"] = ["nbval-check-output"]
    notebook.cells[0].outputs = []


def _stored_error(notebook: NotebookNode) -> None:
    notebook.cells[1].outputs.append(new_output("error", ename="ValueError", evalue="no", traceback=[]))


def _out_of_order(notebook: NotebookNode) -> None:
    notebook.cells[0].execution_count, notebook.cells[1].execution_count = 2, 1


def _starts_late(notebook: NotebookNode) -> None:
    notebook.cells[0].execution_count, notebook.cells[1].execution_count = 3, 4


def _not_executed(notebook: NotebookNode) -> None:
    notebook.cells[1].execution_count = None


def _figure_without_png(notebook: NotebookNode) -> None:
    del notebook.cells[1].outputs[0]["data"][PNG]


def _stderr(notebook: NotebookNode) -> None:
    notebook.cells[1].outputs.append(new_output("stream", name="stderr", text="UserWarning: look out"))


def _path_in_text(notebook: NotebookNode) -> None:
    notebook.cells[0].outputs[0].text = "saved to /home/someone/run.json\n"


def _path_in_html(notebook: NotebookNode) -> None:
    notebook.cells[1].outputs.append(
        new_output("display_data", data={"text/html": "<p>lib/python3.11/site-packages/x</p>"})
    )


def _path_in_figure(notebook: NotebookNode) -> None:
    notebook.cells[1].outputs[0]["data"][PLOTLY]["layout"]["title"] = "from /root/data.csv"


BROKEN: list[tuple[Callable[[NotebookNode], None], str]] = [
    (_no_stored_output, "is checked and has no stored output"),
    (_no_stored_output_by_tag, "is checked and has no stored output"),
    (_stored_error, "stores an error: ValueError"),
    (_out_of_order, "execution counts are [2, 1]"),
    (_starts_late, "execution counts are [3, 4]"),
    (_not_executed, "execution counts are [1, None]"),
    (_figure_without_png, "has a figure without image/png"),
    (_stderr, "stores stderr"),
    (_path_in_text, "stores a machine path"),
    (_path_in_html, "stores a machine path"),
    (_path_in_figure, "stores a machine path"),
]


def test_a_sound_notebook_has_no_problems():
    assert problems(_sound()) == []


@pytest.mark.parametrize(("break_it", "said"), BROKEN, ids=[break_it.__name__[1:] for break_it, _ in BROKEN])
def test_the_checker_catches(break_it: Callable[[NotebookNode], None], said: str):
    notebook = copy.deepcopy(_sound())
    break_it(notebook)
    found = problems(notebook)
    assert len(found) == 1
    assert said in found[0]


def test_there_are_eight_walkthroughs_numbered_from_zero():
    assert [path.name[:2] for path in NOTEBOOKS] == [f"{number:02d}" for number in range(8)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_walkthrough_asks_one_question_answers_it_and_has_little_code(path: Path):
    cells = nbformat.read(path, as_version=4).cells
    assert "\n**Question.** " in cells[0].source
    assert "## Answer\n" in cells[-1].source
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    assert sum(len(source.splitlines()) for source in code) <= 150
    assert not any("print(" in source for source in code)  # text stands in Markdown, numbers in tables


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_are_complete_and_clean(path: Path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert problems(notebook) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_checks_some_of_its_numbers_and_stays_small(path: Path):
    notebook = nbformat.read(path, as_version=4)
    assert any("NBVAL_CHECK_OUTPUT" in cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert notebook.metadata.kernelspec.name == "python3"
    assert path.stat().st_size < MAX_BYTES
