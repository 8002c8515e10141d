"""EXTENDING.md: its code runs as it stands there, one block after another, and every part it adds is then a choice."""

from __future__ import annotations

import re

import pytest

from zorba_core.allocation import SOLVERS
from zorba_core.data.task import TASKS
from zorba_core.engine.parts import AVERAGES, ESTIMATORS, METHODS

ADDED = {"cyclic": SOLVERS, "momentum": METHODS, "midway": AVERAGES, "central": ESTIMATORS, "tickets": TASKS}


@pytest.fixture
def text(root, monkeypatch):
    for registry in ADDED.values():
        monkeypatch.setattr(registry, "_parts", dict(registry))
    monkeypatch.chdir(root)
    return (root / "zorba_core" / "EXTENDING.md").read_text()


def test_its_code_runs_and_adds_each_part(text, root, monkeypatch, tmp_path, capsys):
    names: dict = {}
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        exec(block, names)
    assert all(name in registry for name, registry in ADDED.items())
    run = names["run"]
    assert (run.summary["method"], run.summary["rounds_done"]) == ("momentum", 2)
    assert run.config["estimator"] == "central"
    gap, accuracy = map(float, capsys.readouterr().out.split())
    assert gap >= 0
    assert accuracy == run.summary["final_accuracy"]


def test_it_names_the_group_of_every_registry(text):
    for registry in ADDED.values():
        assert registry.group in text
