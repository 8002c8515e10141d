"""Clients whose model stays in its files take part within their limit, with everybody's bits."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file, save

from tests.federation.test_faults import Scripted, all_equal, notes_of
from zorba_core.errors import InvalidInputError
from zorba_core.federation.client import Client
from zorba_core.federation.client_settings import ClientSettings
from zorba_core.federation.flower.client_app import client_settings
from zorba_core.federation.messages import Hello, Refusal, Registration, decode, encode
from zorba_core.federation.replica_store import ReplicaStore
from zorba_core.federation.session import serve
from zorba_core.runs.streaming.network import BLOCKS, StreamedNetwork


@pytest.fixture
def config(make_config, train_settings):
    return make_config(replace(train_settings, estimator="cohort"))


@pytest.fixture
def streamed(tiny_opt_folder):
    def make(seat: int, store: Path | None = None, limit: str = "2GiB", blocks: int = 0) -> Client:
        settings = ClientSettings(seat, blocks=blocks, model=str(tiny_opt_folder), memory_limit=limit)
        return Client(settings, None if store is None else ReplicaStore(store))

    return make


def test_a_streamed_replica_ends_with_the_servers_weights(config, server_settings, make_clients, streamed, tmp_path):
    whole = serve(
        config, server_settings, Scripted(make_clients((2, 1, 3, 3))), runs_folder=tmp_path / "whole", force=True
    )
    clients = make_clients((2, 1, 3, 3)) | {102: streamed(2), 103: streamed(3)}
    run = serve(config, server_settings, Scripted(clients), runs_folder=tmp_path / "runs", force=True)
    assert all_equal(run)
    assert run.summary["weights_sha256"] == whole.summary["weights_sha256"]
    budgets = {note["seat"]: note["budget"] for _, what, note in notes_of(run) if what == "joined"}
    assert budgets == {0: 2, 1: 1, 2: 3, 3: 3}  # all three blocks, one at a time
    for address in (102, 103):
        assert isinstance(clients[address]._replica.network, StreamedNetwork)
        assert clients[address]._replica.fingerprint() == run.summary["weights_sha256"]


def test_a_limited_client_comes_back_from_its_folder(config, server_settings, make_clients, streamed, tmp_path):
    whole = serve(
        config, server_settings, Scripted(make_clients((2, 1, 3, 1))), runs_folder=tmp_path / "whole", force=True
    )

    def dies_and_comes_back(transport: Scripted) -> None:  # between two rounds: nobody misses it
        transport.clients[102] = streamed(2, tmp_path / "seat-2")

    clients = make_clients((2, 1, 3, 1)) | {102: streamed(2, tmp_path / "seat-2")}
    transport = Scripted(clients, {4: dies_and_comes_back})
    run = serve(config, server_settings, transport, runs_folder=tmp_path / "runs", force=True)
    assert all_equal(run)
    assert run.summary["weights_sha256"] == whole.summary["weights_sha256"]  # it answered every round
    assert sorted(path.name for path in (tmp_path / "seat-2").glob("average-*")) == [
        f"average-{t}.json" for t in (1, 2, 3, 4)
    ]
    assert len(list((tmp_path / "seat-2" / BLOCKS).glob("block-?"))) == 3


@pytest.mark.parametrize("damage", ["state.json", "average-2.json", "rows.safetensors", f"{BLOCKS}/block-1"])
def test_a_damaged_folder_of_a_limited_client_is_not_trusted(
    config, server_settings, make_clients, streamed, tmp_path, damage
):
    clients = make_clients() | {101: streamed(1, tmp_path / "seat-1", blocks=1)}
    serve(config, server_settings, Scripted(clients), runs_folder=tmp_path / "runs", force=True)
    path = tmp_path / "seat-1" / damage
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    again = make_clients() | {101: streamed(1, tmp_path / "seat-1", blocks=1)}
    run = serve(config, server_settings, Scripted(again), runs_folder=tmp_path / "runs", force=True)
    assert all_equal(run)


def flip(path: Path, old: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("kept_in_folder", [True, False])
@pytest.mark.parametrize(
    "hurt",
    [
        flip,
        lambda path, old: path.write_bytes(path.read_bytes()[:-5]),
        lambda path, old: path.write_bytes(old),
        lambda path, old: path.unlink(),
        lambda path, old: shutil.rmtree(path.parent),
    ],
    ids=["flipped", "cut", "of an earlier round", "gone", "the folder is gone"],
)
def test_blocks_that_change_under_a_limited_client_are_computed_again_in_the_same_round(
    config, server_settings, make_clients, streamed, tmp_path, hurt, kept_in_folder
):
    whole = serve(
        config, server_settings, Scripted(make_clients((2, 1, 3, 1))), runs_folder=tmp_path / "whole", force=True
    )
    clients = make_clients((2, 1, 3, 1)) | {102: streamed(2, tmp_path / "seat-2" if kept_in_folder else None)}
    earlier: dict[Path, bytes] = {}

    def blocks() -> list[Path]:
        return sorted(clients[102]._replica.network.store.folder.glob("block-?"))

    def remember(transport: Scripted) -> None:
        earlier.update((path, path.read_bytes()) for path in blocks())

    def damage(transport: Scripted) -> None:
        for path in blocks()[:1]:
            hurt(path, earlier[path])

    transport = Scripted(clients, {3: remember, 4: damage})
    run = serve(config, server_settings, transport, runs_folder=tmp_path / "runs", force=True)
    assert earlier
    assert all_equal(run)
    assert clients[102]._replica.fingerprint() == run.summary["weights_sha256"]
    if kept_in_folder:  # it answered every round; without the averages it is told them again, a round later
        assert run.summary["weights_sha256"] == whole.summary["weights_sha256"]


@pytest.mark.parametrize("limit", [None, "2GiB"], ids=["a process of its own each time", "limited"])
def test_a_base_model_that_changes_under_a_client_is_said_and_nothing_is_computed_with_it(
    config, server_settings, make_clients, tiny_opt_folder, tmp_path, limit
):
    model = shutil.copytree(tiny_opt_folder, tmp_path / "model")

    def client() -> Client:
        settings = ClientSettings(2, blocks=0 if limit else 3, model=str(model), memory_limit=limit)
        return Client(settings, ReplicaStore(tmp_path / "seat-2"))

    def change(transport: Scripted) -> None:
        before = load_file(model / "model.safetensors")
        with open(model / "model.safetensors", "r+b") as file:  # in place: another number in every tensor
            file.write(save({name: values + 0.01 for name, values in before.items()}, {"format": "pt"}))
        if limit is None:
            transport.clients[102] = client()

    clients = make_clients((2, 1, 3, 1)) | {102: client()}
    without = Scripted(make_clients((2, 1, 3, 1)), mute={exchange: {102} for exchange in range(2, 99)})
    whole = serve(config, server_settings, without, runs_folder=tmp_path / "whole", force=True)
    run = serve(config, server_settings, Scripted(clients, {2: change}), runs_folder=tmp_path / "runs", force=True)
    reasons = {note["reason"] for _, what, note in notes_of(run) if what == "refused"}
    assert any("base model's files have changed" in reason for reason in reasons), reasons
    assert [client["seat"] for client in run.summary["replicas"] if client["equal"]] == [0, 1, 3]
    assert run.evaluations["eval_loss"].iloc[-1] == whole.evaluations["eval_loss"].iloc[-1]


def test_what_a_limited_client_cannot_write_is_said_every_round_and_changes_nobodys_weights(
    config, server_settings, make_clients, streamed, tmp_path
):
    def in_the_way(transport: Scripted) -> None:
        path = tmp_path / "seat-2" / BLOCKS / "block-1"
        path.unlink()
        path.mkdir()

    clients = make_clients((2, 1, 3, 1)) | {102: streamed(2, tmp_path / "seat-2")}
    run = serve(config, server_settings, Scripted(clients, {3: in_the_way}), runs_folder=tmp_path / "runs", force=True)
    (reason,) = {note["reason"] for _, what, note in notes_of(run) if what == "refused"}
    assert "block-1 cannot be written (Is a directory); move it away" in reason
    assert [client["seat"] for client in run.summary["replicas"] if client["equal"]] == [0, 1, 3]


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"what":"catch-up","values":' + "[" * 100_000, "[]", "3", '{"what":"catch-up","values":[1]}'],
)
def test_an_average_in_the_folder_of_a_limited_client_that_is_none_is_not_applied(tmp_path, text):
    (tmp_path / "average-1.json").write_text(text)
    assert not ReplicaStore(tmp_path)._restore_streamed(None, "r", {"round": 1, "averages_sha256": "0" * 64})


def test_a_limit_that_is_too_small_is_a_refusal_with_the_amount_that_would_do(config, streamed):
    answer = streamed(0, limit="1MiB").answer(encode(Hello(config.run, config.to_json())))
    refusal = decode(answer, Registration, Refusal)
    assert "memory limit 1 MiB is too small" in refusal.reason
    assert "give --memory-limit" in refusal.reason


def test_the_limit_is_the_clients_own(config, make_clients):
    limited = replace(config, settings=replace(config.settings, memory_limit="1MiB"))  # of the server's machine
    answer = make_clients()[100].answer(encode(Hello(limited.run, limited.to_json())))
    assert decode(answer, Registration, Refusal).blocks == 2


def test_a_limit_is_said_in_the_nodes_config():
    settings, _ = client_settings({"seat": 1, "replica": "x", "memory-limit": "1GiB"})
    assert settings.capacity(12) == (12, 0)
    assert replace(settings, blocks=4).capacity(12) == (4, 0)
    for wrong in ({"memory_limit": "much"}, {"vram_bytes": 2**30}, {"device": "cuda"}):
        with pytest.raises(InvalidInputError):
            replace(settings, **wrong)
