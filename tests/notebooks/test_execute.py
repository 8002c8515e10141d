"""Storing a notebook's outputs leaves nothing in it that the next run would store otherwise."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

SCRIPT = Path(__file__).resolve().parents[2] / "notebooks" / "_execute.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("notebooks_execute", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_two_runs_store_the_same_bytes_and_no_widget(script, tmp_path):
    path = tmp_path / "widgets.ipynb"
    cells = [
        new_markdown_cell("# A slider"),
        new_code_cell("import ipywidgets\nipywidgets.IntSlider(value=3)"),
        new_code_cell("6 * 7"),
        new_code_cell("import time\nprint('a', end='', flush=True)\ntime.sleep(0.5)\nprint('b')"),
    ]
    nbformat.write(new_notebook(cells=cells), path)
    first, second = script.execute(path), script.execute(path)
    assert nbformat.writes(first) == nbformat.writes(second)
    assert "widget-view" not in nbformat.writes(first)
    assert first.cells[2].outputs[0].data["text/plain"] == "42"
    assert [output.text for output in first.cells[3].outputs] == ["ab\n"]
    assert [cell.get("execution_count") for cell in first.cells] == [None, 1, 2, 3]


def test_a_failing_cell_leaves_the_file_as_it_was(script, tmp_path, monkeypatch, capsys):
    path = tmp_path / "wrong.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("1 / 0")]), path)
    before = path.read_bytes()
    monkeypatch.setattr(script, "FOLDER", tmp_path)
    monkeypatch.setattr("sys.argv", ["_execute.py", "wrong"])
    assert script.main() == 1
    assert path.read_bytes() == before
    assert "wrong.ipynb: ZeroDivisionError: division by zero" in capsys.readouterr().err
