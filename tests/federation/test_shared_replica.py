"""Many clients that share one replica answer as clients with one each do."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.federation.conftest import BUDGETS
from zorba_core.engine.settings import TrainSettings
from zorba_core.federation.client import NO_RUN, Client
from zorba_core.federation.client_settings import ClientSettings
from zorba_core.federation.membership import Incoming
from zorba_core.federation.messages import CatchUp, Refusal, decode, encode
from zorba_core.federation.replica_store import ReplicaStore
from zorba_core.federation.session import resume, serve
from zorba_core.federation.shared_replica import VirtualClients
from zorba_core.files import read_json
from zorba_core.runs import TRAJECTORY
from zorba_core.runs.trajectory import read_trajectory

TRAINED = TrainSettings(rounds=4, num_perturbations=3, num_seeds=16, batch_size=4, seq_len=32, eval_rows=20)


class Processes:
    """A transport to several processes that share the clients, each message going to one at random."""

    def __init__(self, model, folder, count: int, down: float = 0.0) -> None:
        self._settings = [ClientSettings(seat=n, blocks=c, model=str(model)) for n, c in enumerate(BUDGETS)]
        self._folder = folder
        self.workers = [VirtualClients(self._settings, folder) for _ in range(count)]
        self._draw = np.random.default_rng(0)
        self._down = down

    def present(self):
        return list(range(len(BUDGETS)))

    def exchange(self, outgoing, deadline):
        incoming = []
        for one in outgoing:
            which = int(self._draw.integers(len(self.workers)))
            if self._draw.random() < self._down:  # it died and was started again
                self.workers[which] = VirtualClients(self._settings, self._folder)
            incoming.append(Incoming(one.address, self.workers[which].answer(one.address, one.payload)))
        return incoming


def shared_average(folder, round_index: int) -> list[int]:
    run = read_json(folder / "state.json")["run"]
    return [average.round for average in VirtualClients([], folder)._folder.average(run, round_index)]


def rounds(run) -> list[tuple]:
    return [
        (e.rho_NQ.tobytes(), e.loss_N.tobytes(), e.seeds_Q.tobytes())
        for e in read_trajectory(run.path / TRAJECTORY).rounds
    ]


@pytest.mark.parametrize(("count", "down"), [(1, 0.0), (3, 0.0), (2, 0.3)])
def test_clients_with_a_shared_replica_answer_as_separate_clients_would(
    make_config, server_settings, transport, tiny_opt_folder, tmp_path, count, down
):
    config = make_config()
    config = replace(config, settings=replace(config.settings, rounds=6, participation=0.75))
    alone = serve(config, server_settings, transport, runs_folder=tmp_path / "alone", force=True)
    processes = Processes(tiny_opt_folder, tmp_path / "shared-replica", count, down)
    shared = serve(config, server_settings, processes, runs_folder=tmp_path / "shared", force=True)
    assert rounds(shared) == rounds(alone)
    assert shared.summary["weights_sha256"] == alone.summary["weights_sha256"]
    assert [client["equal"] for client in shared.summary["replicas"]] == [True] * 4
    networks = {id(client._replica.network) for client in processes.workers[0]._clients.values() if client._replica}
    assert len(networks) == 1


def test_another_run_in_the_same_folder_starts_from_its_own_base(
    make_config, server_settings, tiny_opt_folder, tmp_path
):
    processes = Processes(tiny_opt_folder, tmp_path / "shared-replica", 2)
    config = make_config()
    first, second = (
        serve(config, server_settings, processes, runs_folder=tmp_path / name, force=True) for name in ("a", "b")
    )
    assert rounds(first) == rounds(second)
    assert second.summary["weights_sha256"] == first.summary["weights_sha256"]


def test_a_server_that_comes_back_finds_the_shared_replica(make_config, server_settings, tiny_opt_folder, tmp_path):
    config = make_config()
    whole = serve(
        config, server_settings, Processes(tiny_opt_folder, tmp_path / "h1", 2), runs_folder=tmp_path / "a", force=True
    )
    processes = Processes(tiny_opt_folder, tmp_path / "h2", 2)

    class Dies(Exception):
        pass

    calls = 0
    exchange = processes.exchange

    def dying(outgoing, deadline):
        nonlocal calls
        calls += 1
        if calls == 4:
            raise Dies
        return exchange(outgoing, deadline)

    processes.exchange = dying
    with pytest.raises(Dies):
        serve(config, server_settings, processes, runs_folder=tmp_path / "b", force=True)
    processes.exchange = exchange
    again = resume(next((tmp_path / "b").iterdir()), processes)
    assert rounds(again) == rounds(whole)
    assert again.summary["weights_sha256"] == whole.summary["weights_sha256"]


STATE = {"run": "r", "config": "{}", "seat": 0, "round": 3}


@pytest.mark.parametrize("damage", ["no config", "no JSON", "another config"])
def test_a_client_whose_stored_config_cannot_be_used_asks_to_be_greeted_again(make_config, tmp_path, damage):
    """Another config, though a valid one, is not what the run was agreed on."""
    config = make_config()
    others = replace(config, settings=replace(config.settings, mu=0.5)).to_json()
    stored = {"no config": {}, "no JSON": {"config": "{"}, "another config": {"config": others}}[damage]
    state = {name: value for name, value in {**STATE, "run": config.run}.items() if name != "config"}
    (tmp_path / "state.json").write_text(json.dumps({**state, **stored}))
    client = Client(ClientSettings(seat=0, blocks=1, model=config.model), ReplicaStore(tmp_path))
    refusal = decode(client.answer(encode(CatchUp(config.run, ()))), Refusal)
    assert refusal.reason == "the run has not greeted this client"
    assert refusal.run == NO_RUN  # the server takes it for one that has lost the run
