"""Many clients that share one replica answer as clients with one each do."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.federation.conftest import BUDGETS
from zorba_core.checksums import ChecksumError, write_sealed
from zorba_core.federation.client_settings import ClientSettings
from zorba_core.federation.flower.app_folder import write_request
from zorba_core.federation.flower.server_app import serve_request
from zorba_core.federation.membership import Incoming
from zorba_core.federation.replica_store import ReplicaStore
from zorba_core.federation.session import resume, serve
from zorba_core.federation.shared_replica import VirtualClients
from zorba_core.runs import TRAJECTORY
from zorba_core.runs.trajectory import read_trajectory


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
            incoming.append(Incoming(one.address, self.workers[which].answer(one.address, one.payload)[0]))
        return incoming


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


def test_a_shared_average_that_was_changed_is_named_and_moves_no_replica(
    make_config, server_settings, tiny_opt_folder, tmp_path
):
    folder = tmp_path / "shared-replica"
    serve(make_config(), server_settings, Processes(tiny_opt_folder, folder, 1), runs_folder=tmp_path, force=True)
    path = folder / "average-1.json"
    text = path.read_text()
    path.write_text(text.replace('"run"', '"ran"', 1))
    with pytest.raises(ChecksumError, match=r"average-1\.json: its checksum does not fit"):
        VirtualClients([], folder)._folder.average(1)
    path.write_text(text)
    assert [average.round for average in VirtualClients([], folder)._folder.average(1)] == [1]


def test_a_replica_whose_config_was_changed_on_disk_is_opened_from_the_base(tmp_path):
    store = ReplicaStore(tmp_path)
    write_sealed(tmp_path / "state.json", {"run": "r", "config": '{"lr": 0.01}', "seat": 0, "round": 3})
    assert store.state()["round"] == 3
    path = tmp_path / "state.json"
    path.write_text(path.read_text().replace("0.01", "0.09"))
    assert store.state() == {}


def test_a_server_whose_request_was_changed_refuses_it_by_name(tmp_path):
    request = write_request(tmp_path, {"lr": 0.01}, runs_folder=tmp_path / "runs")
    request.write_text(request.read_text().replace("0.01", "0.09"))
    serve_request(None, request)
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["state"], result["exit_status"]) == ("failed", 2)
    assert "request.json: its checksum does not fit" in result["error"]
