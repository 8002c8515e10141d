"""Runs whose scalars come from different estimators do not stand in one table without a word."""

from __future__ import annotations

from zorba_core.engine.engine_version import ENGINE_VERSION
from zorba_core.study.experiments.recipes import Recipe
from zorba_core.study.experiments.specs import Experiment, RunSpec
from zorba_core.study.experiments.store import RUN_SCHEMA, frame_of, select


def runs_and_experiment(*estimators: str):
    recipe = Recipe("solver", 4, solver="balanced", total=12)
    specs = [
        RunSpec(f"arm-{name}", recipe, {"seed": 0, "estimator": name} if name else {"seed": 0}) for name in estimators
    ]
    rows = [{"sha256": spec.sha256, "engine_version": ENGINE_VERSION, "arm": spec.arm} for spec in specs]
    return frame_of(rows, RUN_SCHEMA), Experiment("test", "does it matter?", lambda profile, runs: specs)


def test_a_table_of_two_estimators_says_so():
    chosen, lines, _ = select(*runs_and_experiment("exact", ""), "ci")
    assert len(chosen) == 2
    assert lines == ("test: scalars are from different estimators: cohort in arm-; exact in arm-exact",)


def test_a_table_of_one_estimator_says_nothing():
    assert select(*runs_and_experiment("exact"), "ci")[1] == ()
    assert select(*runs_and_experiment("", "cohort"), "ci")[1] == ()


def test_a_run_by_another_estimator_is_another_run():
    runs, _ = runs_and_experiment("exact")
    _, experiment = runs_and_experiment("cohort")
    chosen, lines, _ = select(runs, experiment, "ci")
    assert len(chosen) == 0
    assert "asks for another config now" in lines[0]
