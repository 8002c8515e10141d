"""Clients and server die, come back and come late: the run continues, and all weights stay the same bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from zorba_core.errors import InvalidInputError, RunError
from zorba_core.federation.client import Client
from zorba_core.federation.config import ServerSettings
from zorba_core.federation.in_process import InProcess
from zorba_core.federation.messages import TRAIN, Hello, Refusal, Registration, RoundTask, decode, encode
from zorba_core.federation.replica_store import ReplicaStore
from zorba_core.federation.session import resume, serve
from zorba_core.runs import read_run
from zorba_core.runs.log import LOG

Hook = Callable[["Scripted"], None]


class Scripted(InProcess):
    """In-process clients, with something happening before a given exchange of tasks, or to its answers."""

    def __init__(
        self, clients: dict[int, Client], before: dict[int, Hook] | None = None, mute: dict[int, set] | None = None
    ):
        super().__init__(clients)
        self.before, self.mute, self.exchanges = before or {}, mute or {}, 0

    def exchange(self, outgoing, deadline):
        if any(one.kind == TRAIN for one in outgoing):
            self.exchanges += 1
            self.before.get(self.exchanges, lambda transport: None)(self)
        silent = self.mute.get(self.exchanges, set())
        return [one for one in super().exchange(outgoing, deadline) if one.address not in silent]


def die(transport: Scripted) -> None:
    raise RunError("the server's machine lost power")


@pytest.fixture
def settings() -> ServerSettings:
    return ServerSettings(min_clients=4, start_timeout=0.01, deadline=1.0)


@pytest.fixture
def config(make_config, train_settings):
    return make_config(train_settings.replace(rounds=6))


def notes_of(run) -> list[tuple[int, str, dict]]:
    return [(done.round - 1, event["what"], event) for done in run.rounds for event in done.events]


def all_equal(run) -> bool:
    return all(client["equal"] for client in run.summary["replicas"])


def test_a_client_that_joins_late_catches_up_from_averages_alone(config, settings, make_clients, tmp_path):
    clients = make_clients()
    late = {103: clients.pop(103)}
    transport = Scripted(clients, {4: lambda transport: transport.clients.update(late)})
    run = serve(config, settings.replace(min_clients=3), transport, runs_folder=tmp_path, force=True)
    assert [client["seat"] for client in run.summary["replicas"]] == [0, 1, 2, 3]
    assert all_equal(run)
    plans = [(after, content["budgets"]) for after, what, content in notes_of(run) if what == "plan"]
    assert plans[0] == (0, {"0": 2, "1": 1, "2": 3})
    assert plans[1][1] == {"0": 2, "1": 1, "2": 3, "3": 1}


def test_a_client_that_dies_and_comes_back_goes_on_from_its_folder(config, settings, make_clients, tmp_path):
    clients = make_clients(stores=tmp_path / "stores")
    opened = []

    def come_back(transport: Scripted) -> None:
        again = make_clients(stores=tmp_path / "stores")[102]
        transport.clients[552] = again
        opened.append(again)

    transport = Scripted(clients, {3: lambda transport: transport.clients.pop(102), 5: come_back})
    run = serve(config, settings, transport, runs_folder=tmp_path / "runs", force=True)
    assert all_equal(run)
    assert len(run.summary["replicas"]) == 4
    joined = [content for _, what, content in notes_of(run) if what == "joined" and content["client"] == "552"]
    assert joined[0]["replica_round"] == 1  # what it had applied when it died: nothing was replayed
    left = [(content["seat"], content["reason"]) for _, what, content in notes_of(run) if what == "left"]
    assert left == [(2, "its connection is gone")]


def test_a_client_without_the_files_of_its_replica_begins_at_the_base(config, settings, make_clients, tmp_path):
    clients = make_clients(stores=tmp_path / "stores")
    with pytest.raises(RunError, match="lost power"):
        serve(config, settings, Scripted(clients, {4: die}), runs_folder=tmp_path / "runs", force=True)
    (tmp_path / "stores" / "seat-0" / "replica.safetensors").unlink()
    (tmp_path / "stores" / "seat-1" / "replica.safetensors").write_bytes(b"torn")
    (folder,) = (tmp_path / "runs").iterdir()
    run = resume(folder, Scripted(make_clients(stores=tmp_path / "stores")))
    assert all_equal(run)
    joined = [content["replica_round"] for after, what, content in notes_of(run) if (after, what) == (3, "joined")]
    assert joined == [0, 0, 2, 2]


def test_a_process_for_each_message_answers_as_one_for_all(config, settings, make_clients, tmp_path):
    """As under Flower: whoever gets a message finds replica and rows on disk."""

    class Afresh(InProcess):
        def exchange(self, outgoing, deadline):
            self.clients = make_clients(stores=tmp_path / "stores")
            return super().exchange(outgoing, deadline)

    one = serve(config, settings, InProcess(make_clients()), runs_folder=tmp_path / "one", force=True)
    many = serve(config, settings, Afresh(make_clients()), runs_folder=tmp_path / "many", force=True)
    assert many.summary["weights_sha256"] == one.summary["weights_sha256"]
    assert all_equal(many)


def test_a_base_model_that_changed_is_noticed(config, make_clients, tmp_path):
    hello = encode(Hello(config.run, config.to_json()))
    registered = decode(make_clients(stores=tmp_path)[100].answer(hello), Registration)
    store = ReplicaStore(tmp_path / "seat-0")
    state = {**store.state(), "base_sha256": "0" * 64}
    save_file(load_file(store.folder / "replica.safetensors"), store.folder / "replica.safetensors", state)
    task = encode(RoundTask(config.run, 1, np.arange(3, dtype=np.uint32), (0,), ()))
    answer = decode(make_clients(stores=tmp_path)[100].answer(task), Refusal)
    assert "the base model's files have changed" in answer.reason
    assert registered.base_sha256 != "0" * 64


def test_a_server_that_dies_goes_on_from_its_log_to_the_same_bits(config, settings, make_clients, tmp_path):
    whole = serve(config, settings, Scripted(make_clients()), runs_folder=tmp_path / "whole", force=True)
    clients = make_clients()
    with pytest.raises(RunError, match="lost power"):
        serve(config, settings, Scripted(clients, {4: die}), runs_folder=tmp_path / "runs", force=True)
    (folder,) = (tmp_path / "runs").iterdir()
    assert not read_run(folder).finished
    torn = (folder / LOG).open("ab")
    torn.write(b'{"round":9,"torn')
    torn.close()
    run = resume(folder, Scripted({address + 500: client for address, client in clients.items()}))
    assert run.summary["weights_sha256"] == whole.summary["weights_sha256"]
    assert all_equal(run)
    assert run.metrics.drop(columns="seconds").equals(whole.metrics.drop(columns="seconds"))
    with pytest.raises(InvalidInputError, match="finished"):
        resume(folder, Scripted(clients))


def test_a_federation_whose_replicas_are_further_than_its_log_is_not_resumed(config, settings, make_clients, tmp_path):
    clients = make_clients(stores=tmp_path / "stores")
    with pytest.raises(RunError, match="lost power"):
        serve(config, settings, Scripted(clients, {4: die}), runs_folder=tmp_path / "runs", force=True)
    (folder,) = (tmp_path / "runs").iterdir()
    lines = (folder / LOG).read_bytes().splitlines(keepends=True)
    (folder / LOG).write_bytes(b"".join(lines[:2]))
    with pytest.raises(RunError, match="replica stands at round 2 and this run's log ends at 1: if the log has"):
        resume(folder, Scripted(make_clients(stores=tmp_path / "stores")))


def test_a_run_goes_on_with_the_clients_that_are_left_when_the_server_is_back(config, settings, make_clients, tmp_path):
    clients = make_clients()
    with pytest.raises(RunError, match="lost power"):
        serve(config, settings.replace(deadline=0.01), Scripted(clients, {4: die}), runs_folder=tmp_path, force=True)
    (folder,) = tmp_path.iterdir()
    clients.pop(100)
    run = resume(folder, Scripted(clients))
    assert run.summary["rounds_done"] == 6
    assert [client["seat"] for client in run.summary["replicas"]] == [1, 2, 3]
    assert all_equal(run)


def test_a_slow_client_is_left_out_of_the_round_and_taken_back_in(config, settings, make_clients, tmp_path):
    run = serve(config, settings, Scripted(make_clients(), mute={3: {101}}), runs_folder=tmp_path, force=True)
    rounds = run.rounds[1:]
    assert [entry.reported_N.tolist() for entry in rounds[1:4]] == [[True] * 4, [True, False, True, True], [True] * 4]
    assert not rounds[2].refused_N.any()
    assert run.summary["reports"]["silent"] == 1
    assert all_equal(run)


def test_the_run_gives_up_with_its_rounds_kept_when_everybody_stays_silent(config, settings, make_clients, tmp_path):
    everybody = {100, 101, 102, 103}
    transport = Scripted(make_clients(), mute=dict.fromkeys(range(3, 100), everybody))
    with pytest.raises(RunError, match="no client gave a usable answer"):
        serve(config, settings.replace(patience=50), transport, runs_folder=tmp_path, force=True)
    (folder,) = tmp_path.iterdir()
    assert read_run(folder).rounds_done == 2


def test_a_run_that_too_few_can_join_ends_at_once_with_the_reason_of_each(config, settings, make_clients, tmp_path):
    clients = make_clients()
    for address in (101, 103):  # their operators have not named the folder of the base model
        clients[address].settings = replace(clients[address].settings, model=None)
    patient = settings.replace(start_timeout=30.0)
    with pytest.raises(RunError) as error:
        serve(config, patient, Scripted(clients), runs_folder=tmp_path, force=True)
    line = str(error.value)
    assert "2 of 4 seats can be taken and the run needs 4" in line
    assert "seat 1: the client declines: this client's operator has not set the folder of the base model" in line
    assert "seat 3: " in line
    assert not any(tmp_path.iterdir())
    enough = serve(config, patient.replace(min_clients=2), Scripted(clients), runs_folder=tmp_path, force=True)
    assert [client["seat"] for client in enough.summary["replicas"]] == [0, 2]


def test_a_run_with_a_robust_rule_replays_from_its_averages(config, settings, make_clients, tmp_path):
    from zorba_core.federation.robust import AggregationSettings
    from zorba_core.runs.replay import replay

    settings = settings.replace(aggregation=AggregationSettings(rule="median"))
    run = serve(config, settings, Scripted(make_clients()), runs_folder=tmp_path, force=True)
    assert replay(run.path).network.weights_sha256() == run.summary["weights_sha256"]
    assert all_equal(run)
