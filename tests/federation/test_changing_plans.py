"""Allocations that change from round to round over a federation: the trainer's bits, also after the server's death."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.federation.conftest import BUDGETS
from tests.federation.test_any_method import LosesPower, all_equal, in_one_process
from zorba_core.allocation import AllocationProblem, solve
from zorba_core.errors import RunError
from zorba_core.federation.in_process import InProcess
from zorba_core.federation.session import resume, serve
from zorba_core.runs import TRAJECTORY
from zorba_core.runs.block_importance import importance, scalar_rounds
from zorba_core.runs.resume import replay
from zorba_core.runs.trajectory import read_trajectory


@pytest.mark.parametrize("changes", [{"replan": 2, "explore": 1, "idle_blocks": "allow"}, {"vary": "rotate"}])
def test_plans_are_those_of_one_process(make_config, make_clients, server_settings, train_settings, tmp_path, changes):
    config = make_config(replace(train_settings, rounds=6, **changes))
    one = in_one_process(config, tmp_path / "one", allocation=solve(AllocationProblem(BUDGETS, 3)).allocation)
    many = serve(config, server_settings, InProcess(make_clients()), runs_folder=tmp_path / "many", force=True)
    assert many.summary["weights_sha256"] == one.summary["weights_sha256"]
    assert all_equal(many)
    assert replay(many.path).network.weights_sha256() == many.summary["weights_sha256"]
    ours, theirs = (
        [each.A_MN.tobytes() for each in scalar_rounds(read_trajectory(run.path / TRAJECTORY), run.allocation)]
        for run in (many, one)
    )
    assert ours == theirs
    assert len(set(ours)) > 1
    assert importance(many, resamples=0).energy_M.tolist() == importance(one, resamples=0).energy_M.tolist()
    clients = make_clients()
    with pytest.raises(RunError, match="lost power"):
        serve(config, server_settings, LosesPower(clients), runs_folder=tmp_path / "cut", force=True)
    (folder,) = (tmp_path / "cut").iterdir()
    resumed = resume(folder, InProcess(clients))
    assert resumed.summary["weights_sha256"] == many.summary["weights_sha256"]
    assert all_equal(resumed)


def test_a_gain_plan_may_leave_a_block_without_a_client(
    make_config, make_clients, server_settings, train_settings, tmp_path
):
    config = make_config(replace(train_settings, rounds=2, idle_blocks="allow"))
    settings = replace(server_settings, solver="gain")
    run = serve(config, settings, InProcess(make_clients((1, 1, 1, 1))), runs_folder=tmp_path, force=True)
    assert run.allocation.blocks_held_N.tolist() == [1, 1, 1, 1]
    assert run.summary["final_accuracy"] is not None
    assert all_equal(run)
