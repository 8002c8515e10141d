"""A small experiment as it is run: trials, measured runs, and what is left of it after a stop."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from notebooks.reproduction import sweep as sweeping
from notebooks.reproduction.sweep import (
    COLUMNS,
    Arm,
    Cell,
    Plan,
    best_rate,
    make_run,
    missing,
    planned_run,
    planned_runs,
    rates_tried,
    read_table,
    run_plan,
    write_table,
)
from zorba_core.allocation import Allocation
from zorba_core.errors import InvalidInputError, MissingDataError, RunError
from zorba_core.runs.record import Callback
from zorba_core.runs.terminal import Interrupt

SETTINGS = {"rounds": 4, "eval_every": 2, "eval_rows": 8, "directions": 2, "batch_size": 2, "seq_len": 48}
HALF = Allocation([[1, 0, 1], [1, 1, 0], [0, 1, 1]])


def plan_of(base, **changes) -> Plan:
    arms = (
        Arm("half", lambda seed: HALF, lr=1e-3),
        Arm("fedit", settings={"method": "fedit", "directions": 0}, lr=1e-2),
    )
    cell = Cell(str(base), "toy-reviews", 3, SETTINGS, arms, seeds=(0, 1), trial_seeds=())
    return Plan("small", "Does it run?", (replace(cell, **changes),))


@pytest.fixture(scope="module")
def done(rows_divided_once, tiny_opt_folder, tmp_path_factory):
    """(plan, folder, table) of an experiment that has been run."""
    plan, folder = plan_of(tiny_opt_folder), tmp_path_factory.mktemp("experiments")
    return plan, folder, run_plan(plan, folder=folder, scratch=folder / "work", notice=lambda line: None)


def test_a_row_for_each_evaluation_says_what_the_run_was_and_what_it_cost(done):
    _, folder, table = done
    pd.testing.assert_frame_equal(table, read_table("small", folder))
    assert list(table.columns) == list(COLUMNS)
    assert table.groupby(["arm", "seed"])["round"].apply(list).tolist() == [[0, 2, 4]] * 4
    last = table[table["round"] == 4].set_index(["arm", "seed"])
    assert last.loc[("half", 0), "forward_passes"] == 3 * 4 * (2 + 1)  # clients, rounds, Q + 1
    assert last.loc[("fedit", 0), "backward_passes"] == 3 * 4
    assert last.loc[("fedit", 0), "bytes"] > 100 * last.loc[("half", 0), "bytes"]
    assert last.loc[("half", 1), "lambda"] == HALF.bias_lambda
    assert set(last["status"]) == {"finished"}


def test_finished_runs_are_skipped_also_without_their_folders(done, tmp_path):
    plan, folder, table = done
    again = run_plan(plan, folder=folder, scratch=tmp_path, notice=pytest.fail)
    pd.testing.assert_frame_equal(again, table)


def test_a_run_made_again_from_its_row_has_the_same_bits(done, tmp_path):
    _, _, table = done
    for arm in ("half", "fedit"):
        row = table[(table["arm"] == arm) & (table["seed"] == 1) & (table["round"] == 4)].iloc[0]
        assert make_run(json.loads(row["config"]), tmp_path / arm).summary["weights_sha256"] == row["weights_sha256"]


class CtrlCInRound3(Callback):
    def __init__(self, interrupt: Interrupt) -> None:
        self.interrupt = interrupt

    def on_round(self, done) -> None:
        if done.round == 3:
            self.interrupt._asked = True


@pytest.mark.parametrize("prompt", ["", "Review: {text} Sentiment:"])
def test_an_interrupted_run_resumes_to_the_bits_of_an_undisturbed_one(tiny_opt_folder, tmp_path, monkeypatch, prompt):
    plan = plan_of(tiny_opt_folder, seeds=(0,), prompt=prompt)
    quiet = {"notice": lambda line: None, "most": 1}
    whole = run_plan(plan, folder=tmp_path / "a", scratch=tmp_path / "a/work", **quiet)
    make = sweeping.make_run
    stop = lambda config, folder, callbacks: make(config, folder, [CtrlCInRound3(callbacks[0]), *callbacks])  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(sweeping, "make_run", stop)
        with pytest.raises(RunError, match="stopped; finished runs are kept"):
            run_plan(plan, folder=tmp_path / "b", scratch=tmp_path / "b/work", **quiet)
    monkeypatch.setattr(sweeping, "make_run", pytest.fail)  # resumed, not begun again
    resumed = run_plan(plan, folder=tmp_path / "b", scratch=tmp_path / "b/work", **quiet)
    pd.testing.assert_frame_equal(resumed.drop(columns="seconds"), whole.drop(columns="seconds"))


def test_a_run_that_diverges_is_a_result(tiny_opt_folder, tmp_path):
    plan = plan_of(tiny_opt_folder, arms=(Arm("wild", lambda seed: HALF, lr=1e30),), seeds=(0,))
    table = run_plan(plan, folder=tmp_path, scratch=tmp_path / "work", notice=lambda line: None)
    assert set(table["status"]) == {"diverged"}
    assert missing(plan, table) == []


def trials(plan: Plan, loss_by_lr: dict[float, float], status: str = "finished") -> pd.DataFrame:
    """Rows of trials as a table has them, with these late losses."""
    cell, rows = plan.cells[0], []
    for seed in cell.trial_seeds:
        for lr, loss in loss_by_lr.items():
            sha256 = planned_run(plan, cell, cell.arms[0], "trial", seed, lr).sha256
            row = {"config_sha256": sha256, "round": 4, "rounds": 4, "loss": loss, "status": status}
            rows.append({name: row.get(name, "" if kind == "string" else 0) for name, kind in COLUMNS.items()})
    return pd.DataFrame(rows).astype(dict(COLUMNS))


def test_a_grid_of_rates_grows_until_the_best_lies_inside(tiny_opt_folder):
    plan = plan_of(tiny_opt_folder, trial_seeds=(1000, 1001))
    cell, arm = plan.cells[0], plan.cells[0].arms[0]
    empty = read_table("none", tiny_opt_folder, missing_ok=True)
    first = rates_tried(plan, cell, arm, empty)
    assert first == pytest.approx([7.07e-4, 1e-3, 1.41e-3])
    rising = {lr: lr for lr in first}  # the lowest rate is best: it is on the edge
    wider = rates_tried(plan, cell, arm, trials(plan, rising))
    assert wider == pytest.approx([5e-4, *first])
    assert best_rate(plan, cell, arm, trials(plan, rising)) is None
    inside = {wider[0]: 1.0, **rising}
    assert rates_tried(plan, cell, arm, trials(plan, inside)) == wider
    assert best_rate(plan, cell, arm, trials(plan, inside)) == wider[1]


def test_a_rate_whose_trial_diverged_loses_to_any_that_did_not(tiny_opt_folder):
    plan = plan_of(tiny_opt_folder, trial_seeds=(1000,))
    cell, arm = plan.cells[0], plan.cells[0].arms[0]
    low, middle, high = rates_tried(plan, cell, arm, read_table("none", tiny_opt_folder, missing_ok=True))
    table = pd.concat([trials(plan, {low: 0.9, middle: 0.8}), trials(plan, {high: np.nan}, "diverged")])
    assert best_rate(plan, cell, arm, table) == middle


def test_measured_runs_wait_for_the_trials_of_their_arm(tiny_opt_folder):
    plan = plan_of(tiny_opt_folder, trial_seeds=(1000,))
    roles = [one.role for one in missing(plan, read_table("none", tiny_opt_folder, missing_ok=True))]
    assert roles == ["trial"] * 6


def test_an_experiment_has_one_sweep_at_a_time_and_two_experiments_have_two(done, tmp_path):
    plan, folder, _ = done
    with sweeping._alone(tmp_path / plan.name), pytest.raises(RunError, match="another process runs experiments in"):
        run_plan(plan, folder=tmp_path, scratch=tmp_path)
    with sweeping._alone(tmp_path / "another"):
        run_plan(plan, folder=folder, scratch=tmp_path, notice=pytest.fail)


def test_no_run_begins_after_the_given_time(tiny_opt_folder, tmp_path):
    plan = plan_of(tiny_opt_folder)
    assert run_plan(plan, folder=tmp_path, scratch=tmp_path, until=time.time() - 1, notice=pytest.fail).empty


def test_arms_can_take_their_rate_from_another_arms_trials_and_the_lowest_of_near_ones(tiny_opt_folder):
    arms = (Arm("half", lambda seed: HALF, lr=1e-3), Arm("again", lambda seed: HALF, rate_of="half"))
    plan = plan_of(tiny_opt_folder, arms=arms, trial_seeds=(1000,), rate_step=2.0, near=0.02)
    empty = read_table("none", tiny_opt_folder, missing_ok=True)
    assert [one.arm.name for one in missing(plan, empty)] == ["half"] * 3
    done = trials(plan, {5e-4: 0.61, 1e-3: 0.6, 2e-3: 0.7})
    measured = [one for one in planned_runs(plan, done) if one.role == "measure"]
    assert {one.arm.name for one in measured} == {"half", "again"}
    assert {one.config["settings"]["lr"] for one in measured} == {5e-4}


def test_a_table_that_is_missing_or_damaged_is_said_in_one_line(tmp_path):
    with pytest.raises(MissingDataError, match=r"make it with: python -m notebooks\.reproduction cases"):
        read_table("cases", tmp_path)
    (tmp_path / "cases.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(InvalidInputError, match=r"cases\.parquet: not a table of runs"):
        read_table("cases", tmp_path)
    write_table(pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in COLUMNS.items()}), "empty", tmp_path)
    assert read_table("empty", tmp_path).empty
