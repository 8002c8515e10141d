"""The notebooks are read without a kernel, so their stored outputs must be complete and clean.

nbval compares only stored outputs: a checked cell without one passes silently.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
PLOTLY, PNG = "application/vnd.plotly.v1+json", "image/png"
MACHINE_PATH = re.compile(
    r"(?<![\w./])/(?:home|root|work|tmp|usr|var|opt|mnt|Users|private)/[\w.]|[A-Za-z]:\\\\?Users|site-packages|\.venv"
)
MAX_BYTES = 600_000


def problems(notebook: NotebookNode) -> list[str]:
    """One line for each thing wrong with the stored outputs, none if all is well."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    wrong = []
    counts = [cell.execution_count for cell in code]
    if counts != list(range(1, len(code) + 1)):
        wrong.append(f"execution counts are {counts}, not 1 to {len(code)}: run all cells in a fresh kernel")
    for index, cell in enumerate(code, start=1):
        checked = "NBVAL_CHECK_OUTPUT" in cell.source or "nbval-check-output" in cell.metadata.get("tags", [])
        if checked and not cell.outputs:
            wrong.append(f"code cell {index} is checked and has no stored output")
        for output in cell.outputs:
            wrong += [f"code cell {index} {problem}" for problem in _output_problems(output)]
    return wrong


def _output_problems(output: NotebookNode) -> list[str]:
    wrong = []
    if output.output_type == "error":
        wrong.append(f"stores an error: {output.ename}")
    if output.output_type == "stream" and output.name == "stderr":
        wrong.append(f"stores stderr: {output.text.strip()[:80]!r}")
    data = output.get("data", {})
    if PLOTLY in data and PNG not in data:
        wrong.append("has a figure without image/png: nothing to see without a kernel")
    # Base64 of a picture may hold any letters.
    text = json.dumps({**output, "data": {mime: value for mime, value in data.items() if mime != PNG}})
    path = MACHINE_PATH.search(text)
    if path:
        wrong.append(f"stores a machine path: {text[max(0, path.start() - 10) : path.end() + 20]!r}")
    return wrong


def test_there_are_eight_walkthroughs_numbered_from_zero():
    assert [path.name[:2] for path in NOTEBOOKS] == [f"{number:02d}" for number in range(8)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_walkthrough_has_a_question_an_answer_little_code_and_all_of_its_outputs(path: Path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = notebook.cells
    assert "\n**Question.** " in cells[0].source
    assert "## Answer\n" in cells[-1].source
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    assert sum(len(source.splitlines()) for source in code) <= 150
    assert not any("print(" in source for source in code)  # text is in Markdown, numbers in tables
    assert any("NBVAL_CHECK_OUTPUT" in source for source in code)
    assert notebook.metadata.kernelspec.name == "python3"
    assert path.stat().st_size < MAX_BYTES
    assert problems(notebook) == []
