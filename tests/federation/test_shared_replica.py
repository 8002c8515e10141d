"""Many clients that share one replica answer as clients with one each do."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

from tests.federation.conftest import BUDGETS
from zorba_core.checksums import ChecksumError, read_sealed, write_sealed
from zorba_core.data.tasks import get_task
from zorba_core.engine.settings import TrainSettings
from zorba_core.federation.client import NO_RUN, Client
from zorba_core.federation.client_settings import ClientSettings
from zorba_core.federation.config import RunConfig, ServerSettings
from zorba_core.federation.flower.app_folder import write_request
from zorba_core.federation.flower.server_app import serve_request
from zorba_core.federation.membership import Incoming
from zorba_core.federation.messages import CatchUp, Hello, Refusal, Standing, decode, encode
from zorba_core.federation.replica_store import ReplicaStore
from zorba_core.federation.request import request_config
from zorba_core.federation.session import resume, serve
from zorba_core.federation.shared_replica import VirtualClients
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
    run = read_sealed(folder / "state.json")["run"]
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


def test_a_shared_average_that_was_changed_is_named_and_moves_no_replica(
    make_config, server_settings, tiny_opt_folder, tmp_path
):
    folder = tmp_path / "shared-replica"
    serve(make_config(), server_settings, Processes(tiny_opt_folder, folder, 1), runs_folder=tmp_path, force=True)
    path = folder / "average-1.json"
    text = path.read_text()
    path.write_text(text.replace('"run"', '"ran"', 1))
    with pytest.raises(ChecksumError, match=r"average-1\.json: its checksum does not fit"):
        shared_average(folder, 1)
    path.write_text(text)
    assert shared_average(folder, 1) == [1]


@pytest.fixture(scope="module")
def trained_together(tiny_opt_folder, tmp_path_factory):
    """The folder of a shared replica after four rounds, and how the clients of a process begun there answer when they
    are asked where they stand: seat 0's."""
    folder = tmp_path_factory.mktemp("shared") / "replica"
    words = get_task("toy-reviews").label_words
    config = RunConfig("toy-reviews", str(tiny_opt_folder), words, len(BUDGETS), 1.0, TRAINED)
    settings = ServerSettings(min_clients=len(BUDGETS), start_timeout=0.01, deadline=1.0)
    serve(config, settings, Processes(tiny_opt_folder, folder, 1), runs_folder=folder.parent / "runs", force=True)
    state = read_sealed(folder / "state.json")
    hello, ask = Hello(state["run"], state["config"]), CatchUp(state["run"], ())

    def stand(folder) -> Standing | Refusal:
        clients = Processes(tiny_opt_folder, folder, 1).workers[0]
        clients.answer(0, encode(hello))
        return decode(clients.answer(0, encode(ask)), Standing, Refusal)

    assert stand(folder).round == 4
    return folder, stand


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: shutil.copy(path.with_name("average-1.json"), path), "not round 3 of this run"),
        (lambda path: path.write_bytes(path.read_bytes()[:60]), "not round 3 of this run"),
        (lambda path: path.write_text(path.read_text(), encoding="utf-16"), "not round 3 of this run"),
        (lambda path: path.write_text("[]"), "not round 3 of this run"),
        (lambda path: path.write_text("[" * 5_000), "not round 3 of this run"),
        (lambda path: path.write_text('{"what": "catch-up"}'), "not round 3 of this run"),
        (lambda path: path.write_text('{"what": "catch-up", "values": [1]}'), "not round 3 of this run"),
        (lambda path: path.write_text('{"what": "catch-up", "values": {"run": 1}}'), "not round 3 of this run"),
        (lambda path: (path.unlink(), path.mkdir()), "it is a folder where a file belongs"),
        (lambda path: (path.unlink(), os.mkfifo(path)), "it is a device or a pipe where a file belongs"),
    ],
)
def test_a_shared_average_that_is_not_that_of_its_round_is_named_in_a_refusal(trained_together, tmp_path, damage, says):
    whole, stand = trained_together
    folder = shutil.copytree(whole, tmp_path / "replica")
    damage(folder / "average-3.json")
    refusal = stand(folder)
    assert isinstance(refusal, Refusal)
    assert f"average-3.json: {says}" in refusal.reason
    assert refusal.round == 2  # from which the server sends it again


def test_the_last_average_stored_twice_moves_a_shared_replica_once(trained_together, tmp_path):
    whole, stand = trained_together
    folder = shutil.copytree(whole, tmp_path / "replica")
    shutil.copy(folder / "average-4.json", folder / "average-5.json")
    assert "average-5.json: not round 5 of this run" in stand(folder).reason


@pytest.mark.parametrize(
    "content", ["[1]", "3", "[" * 5_000, "", '{"run": ["r"], "config": "{}"}', '{"run": "r"}', '{"config": "{}"}']
)
def test_a_shared_state_that_cannot_be_used_is_none(tmp_path, content):
    (tmp_path / "state.json").write_text(content)
    assert VirtualClients([], tmp_path)._folder.state() == {}


STATE = {"run": "r", "config": "{}", "seat": 0, "round": 3, "rows_sha256": "0" * 64}


@pytest.mark.parametrize(
    "change",
    [{"round": None}, {"round": "x"}, {"round": True}, {"round": -1}, {"round": 1e308}, {"config": None},
     {"config": 3}, {"run": ["r"]}, {"seat": "0"}, {"rows_sha256": 3}, {"averages_sha256": []}],
)  # fmt: skip
def test_a_state_of_other_types_is_none_and_its_replica_starts_at_the_base(tmp_path, change):
    state = {name: value for name, value in {**STATE, **change}.items() if value is not None}
    (tmp_path / "state.json").write_text(json.dumps(state))
    assert ReplicaStore(tmp_path).state() == {}
    (tmp_path / "state.json").write_text(json.dumps(STATE))
    assert ReplicaStore(tmp_path).state() == STATE


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


def replaced(*names: str, value: object = None):
    """A field of the request replaced, or removed where no value is given; without the checksum."""

    def damage(path) -> None:
        content = read_sealed(path)
        holder = content
        for name in names[:-1]:
            holder = holder[name]
        if value is None:
            del holder[names[-1]]
        else:
            holder[names[-1]] = value
        path.write_text(json.dumps(content))

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:60]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text(path.read_text(), encoding="utf-16"),
        lambda path: path.write_text("[" * 5_000),
        lambda path: path.write_text("[]"),
        lambda path: (path.unlink(), os.mkfifo(path)),
        lambda path: path.unlink(),
        replaced("config"),
        replaced("config", value=[1]),
        replaced("config", "rounds"),
        replaced("config", "mu"),
        replaced("config", "rounds", value="x"),
        replaced("config", "dataset"),
        replaced("config", "dataset", value=3),
        replaced("config", "label_words", value=[1, 2]),
        replaced("config", "task", value=[1]),
        replaced("config", "federation"),
        replaced("config", "federation", value="x"),
        replaced("config", "federation", "aggregation", value=[1]),
        replaced("name"),
        replaced("name", value=[1]),
        replaced("resume", value=3),
        replaced("runs_folder", value=3),
        replaced("force", value="yes"),
    ],
)
def test_a_request_that_cannot_be_read_is_named_in_the_servers_result(make_config, server_settings, tmp_path, damage):
    request = write_request(tmp_path, request_config(make_config(), server_settings), runs_folder=tmp_path / "runs")
    damage(request)
    serve_request(None, request)
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["state"], result["exit_status"]) == ("failed", 2)
    assert result["error"].startswith(f"{request}: ")
    assert "\n" not in result["error"]
    assert not (tmp_path / "server.log").exists()  # nothing began


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_stands_in_place_of_the_servers_log_is_named_in_its_result(make_config, server_settings, tmp_path, make):
    """Else whoever started the server would wait for its result for ever."""
    request = write_request(tmp_path, request_config(make_config(), server_settings), runs_folder=tmp_path / "runs")
    make(tmp_path / "server.log")
    serve_request(None, request)
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["state"], result["exit_status"]) == ("failed", 2)
    assert "server.log': it is a" in result["error"]
