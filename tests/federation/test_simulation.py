"""Flower's simulation runtime, where Ray is installed: the same rounds as in one process."""

from __future__ import annotations

from functools import lru_cache

import pytest

pytest.importorskip("flwr")

from zorba_core.errors import MissingDataError
from zorba_core.federation.client import Client
from zorba_core.federation.config import ServerSettings
from zorba_core.federation.flower import simulation
from zorba_core.federation.in_process import InProcess
from zorba_core.federation.replica import open_replica
from zorba_core.federation.request import request_config
from zorba_core.federation.session import serve


def test_without_ray_it_is_said_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setattr(simulation, "find_spec", lambda name: None)
    with pytest.raises(MissingDataError, match=r"\[flower,ray\]"):
        simulation.simulate(tmp_path, {}, [], runs_folder=tmp_path)


def test_clients_that_share_a_replica_answer_as_separate_clients_would(
    make_config, server_settings, transport, tmp_path
):
    alone = serve(make_config(), server_settings, transport, runs_folder=tmp_path / "one", force=True)
    shared = lru_cache(maxsize=1)(open_replica)
    virtual = {seat: Client(client.settings, opener=shared) for seat, client in transport.clients.items()}
    run = serve(make_config(), server_settings, InProcess(virtual), runs_folder=tmp_path / "many", force=True)
    assert run.summary["weights_sha256"] == alone.summary["weights_sha256"]
    assert [client["equal"] for client in run.summary["replicas"]] == [True] * len(virtual)
    assert shared.cache_info().misses == 1


@pytest.mark.slow
def test_virtual_clients_end_with_the_weights_of_clients_in_one_process(
    make_config, server_settings, transport, tmp_path
):
    pytest.importorskip("ray")
    config = make_config()
    alone = serve(config, server_settings, transport, runs_folder=tmp_path / "one", force=True)
    nodes = [{"blocks": client.settings.blocks, "model": config.model} for client in transport.clients.values()]
    settings = ServerSettings(min_clients=len(nodes), start_timeout=120.0, deadline=60.0)
    run = simulation.simulate(
        tmp_path / "s", request_config(config, settings), nodes, runs_folder=tmp_path / "many", force=True
    )
    assert run.summary["weights_sha256"] == alone.summary["weights_sha256"]
    assert [client["equal"] for client in run.summary["replicas"]] == [True] * len(nodes)
