"""The protocol changes where things are computed, and no number."""

from __future__ import annotations

import numpy as np
import pytest

from tests.federation.conftest import BUDGETS
from tests.runs.resumable import copy_of, resume
from zorba_core.allocation import Problem, solve
from zorba_core.errors import InvalidInputError
from zorba_core.federation.session import serve
from zorba_core.runs import read_run
from zorba_core.runs.log import LOG
from zorba_core.runs.replay import replay
from zorba_core.runs.train import fine_tune


def in_one_process(config, tmp_path):
    allocation = solve(Problem(BUDGETS, 3)).allocation
    return fine_tune(
        allocation, dataset=config.dataset, model=config.model, settings=config.settings, force=True,
        runs_folder=tmp_path / "one",
    )  # fmt: skip


def federated(config, settings, transport, tmp_path):
    return serve(config, settings, transport, runs_folder=tmp_path / "many", force=True)


def test_federated_rounds_are_the_reference_loops_bit_for_bit(make_config, server_settings, transport, tmp_path):
    config = make_config()
    one, many = in_one_process(config, tmp_path), federated(config, server_settings, transport, tmp_path)
    assert many.summary["weights_sha256"] == one.summary["weights_sha256"]
    assert (many.allocation.A_MN == one.allocation.A_MN).all()
    for ours, theirs in zip(many.rounds[1:], one.rounds[1:], strict=True):
        for name in ("seeds_Q", "rho_NQ", "status_N", "loss_N"):
            assert getattr(ours, name).tobytes() == getattr(theirs, name).tobytes()
        for name in ("round", "lr", "forward_passes", "scalars_up", "scalars_down"):
            assert getattr(ours, name) == getattr(theirs, name)
    columns = ["round", "train_loss", "eval_loss", "eval_accuracy", "clients_reported"]
    assert many.metrics[columns].equals(one.metrics[columns])


@pytest.mark.parametrize(
    "changes",
    [
        {"direction": "low-rank"},
        {"lora_rank": 2},
        {"schedule": "cosine"},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_every_arithmetic_has_the_trainers_bits_and_is_resumed_and_replayed_with_them(
    make_config, server_settings, transport, train_settings, tmp_path, changes
):
    config = make_config(train_settings.replace(estimator="cohort", **changes))
    one, many = in_one_process(config, tmp_path), federated(config, server_settings, transport, tmp_path)
    assert many.summary["weights_sha256"] == one.summary["weights_sha256"]
    assert all(client["equal"] for client in many.summary["replicas"])
    for run in (one, many):
        assert replay(run.path).network.weights_sha256() == run.summary["weights_sha256"]
    rounds_before = one.rounds[1:]
    cut = copy_of(one, tmp_path / "cut")
    (cut / LOG).write_bytes((cut / LOG).read_bytes()[:-400])
    assert len(read_run(cut).rounds[1:]) < len(rounds_before)
    assert resume(cut).summary["weights_sha256"] == one.summary["weights_sha256"]


@pytest.mark.parametrize("estimator", ["cohort", "reference"])
def test_other_estimators_agree_to_rounding(make_config, server_settings, transport, tmp_path, estimator):
    config = make_config()
    config = config.replace(settings=config.settings.replace(estimator=estimator, rounds=1, mu=1e-2))
    one, many = in_one_process(config, tmp_path), federated(config, server_settings, transport, tmp_path)
    rho_one, rho_many = (run.rounds[1:][0].rho_NQ for run in (one, many))
    # A client by itself goes through the model in another batch shape than in the cohort of all.
    assert np.abs(rho_one - rho_many).max() <= 1e-5 * max(1.0, np.abs(rho_one).max())


def test_a_federated_run_is_not_gone_on_with_in_one_process(make_config, server_settings, transport, tmp_path):
    run = federated(make_config(), server_settings, transport, tmp_path)
    with pytest.raises(InvalidInputError, match="zorba federation up --resume"):
        resume(run.path)
