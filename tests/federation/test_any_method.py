"""Any method that exchanges scalars runs over a federation: same bits as in one process, also with a server state."""

from __future__ import annotations

import pytest

from tests.federation.conftest import BUDGETS
from zorba_core.allocation import Problem, solve
from zorba_core.errors import RunError
from zorba_core.federation.in_process import InProcess
from zorba_core.federation.messages import TRAIN
from zorba_core.federation.robust import AggregationSettings
from zorba_core.federation.session import resume, serve
from zorba_core.runs.replay import replay
from zorba_core.runs.train import fine_tune


@pytest.fixture
def momentum(make_config, train_settings, example_parts):
    return make_config(train_settings.replace(method="momentum", estimator="central")).replace(dataset="tickets")


class LosesPower(InProcess):
    """The server dies before its third exchange of tasks."""

    tasks = 0

    def exchange(self, outgoing, deadline):
        self.tasks += any(one.kind == TRAIN for one in outgoing)
        if self.tasks == 3:
            raise RunError("the server's machine lost power")
        return super().exchange(outgoing, deadline)


def in_one_process(config, tmp_path, **who):
    return fine_tune(
        **who, dataset=config.dataset, model=config.model, settings=config.settings, force=True, runs_folder=tmp_path
    )


def all_equal(run) -> bool:
    return bool(run.summary["replicas"]) and all(client["equal"] for client in run.summary["replicas"])


def test_a_method_with_server_state_has_the_trainers_bits(momentum, server_settings, transport, tmp_path):
    one = in_one_process(momentum, tmp_path / "one", allocation=solve(Problem(BUDGETS, 3)).allocation)
    many = serve(momentum, server_settings, transport, runs_folder=tmp_path / "many", force=True)
    assert many.summary["weights_sha256"] == one.summary["weights_sha256"]
    assert all_equal(many)
    for ours, theirs in zip(many.rounds[1:], one.rounds[1:], strict=True):
        assert ours.rho_bar_MQ.tobytes() == theirs.rho_bar_MQ.tobytes()
        assert {name: value.tolist() for name, value in ours.method_state.items()} == {
            name: value.tolist() for name, value in theirs.method_state.items()
        }
    assert replay(many.path).network.weights_sha256() == many.summary["weights_sha256"]


def test_its_state_survives_the_servers_death(momentum, server_settings, make_clients, tmp_path):
    settings = server_settings.replace(aggregation=AggregationSettings(rule="median"))
    whole = serve(momentum, settings, InProcess(make_clients()), runs_folder=tmp_path / "whole", force=True)
    clients = make_clients()
    with pytest.raises(RunError, match="lost power"):
        serve(momentum, settings, LosesPower(clients), runs_folder=tmp_path / "cut", force=True)
    (folder,) = (tmp_path / "cut").iterdir()
    run = resume(folder, InProcess(clients))
    assert run.summary["weights_sha256"] == whole.summary["weights_sha256"]
    assert all_equal(run)


def test_decomfl_gives_every_client_every_block(make_config, make_clients, server_settings, train_settings, tmp_path):
    config = make_config(train_settings.replace(method="decomfl", directions=3))
    run = serve(config, server_settings, InProcess(make_clients((3, 3, 3, 3))), runs_folder=tmp_path / "a", force=True)
    one = in_one_process(config, tmp_path / "b", num_clients=4)
    assert run.allocation.A_MN.all()
    assert run.summary["weights_sha256"] == one.summary["weights_sha256"]
    assert run.metrics["scalars_down"].tolist() == one.metrics["scalars_down"].tolist()
    assert all_equal(run)


def test_a_client_too_small_for_all_blocks_is_turned_away(
    make_config, make_clients, server_settings, train_settings, tmp_path
):
    config = make_config(train_settings.replace(method="decomfl", directions=3))
    settings, told = server_settings.replace(min_clients=3), []
    run = serve(
        config, settings, InProcess(make_clients((3, 2, 3, 3))), runs_folder=tmp_path, force=True, tell=told.append
    )
    assert [client["seat"] for client in run.summary["replicas"]] == [0, 2, 3]
    assert run.allocation.A_MN.all(axis=0).tolist() == [True, False, True, True]
    assert any("it can hold 2 of 3 blocks, and decomfl needs all" in line for line in told)
