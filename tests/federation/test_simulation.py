"""Flower's simulation runtime, where Ray is installed: the same rounds as in one process."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("flwr")

from tests.federation.conftest import processes_under
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.federation.config import ServerSettings
from zorba_core.federation.flower import simulation
from zorba_core.federation.request import request_config
from zorba_core.federation.session import serve


def test_without_ray_it_is_said_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setattr(simulation, "find_spec", lambda name: None)
    with pytest.raises(MissingDataError, match=r"\[flower,ray\]"):
        simulation.simulate(tmp_path, {}, [], runs_folder=tmp_path)


@pytest.mark.slow
def test_virtual_clients_end_with_the_weights_of_clients_in_one_process(
    make_config, server_settings, transport, tmp_path
):
    pytest.importorskip("ray")
    config = make_config()
    alone = serve(config, server_settings, transport, runs_folder=tmp_path / "one", force=True)
    nodes = [{"blocks": client.settings.blocks, "model": config.model} for client in transport.clients.values()]
    settings = ServerSettings(min_clients=len(nodes), start_timeout=120.0, deadline=60.0)
    with pytest.raises(InvalidInputError, match="workers is 0"):
        simulation.simulate(tmp_path / "s", {}, nodes, runs_folder=tmp_path, workers=0)
    run = simulation.simulate(
        tmp_path / "s", request_config(config, settings), nodes, runs_folder=tmp_path / "many", workers=2, force=True
    )
    assert run.summary["weights_sha256"] == alone.summary["weights_sha256"]
    assert [client["equal"] for client in run.summary["replicas"]] == [True] * len(nodes)
    assert processes_under(tmp_path / "s" / "flwr-home") == []
    again = replace(config, settings=replace(config.settings, rounds=5))
    other = simulation.simulate(
        tmp_path / "s", request_config(again, settings), nodes, runs_folder=tmp_path / "other", force=True
    )
    assert other.summary["rounds_done"] == 5
