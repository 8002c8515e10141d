"""A client applies only what its run and its operator allow: a server that sends something else is told so."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from zorba_core.data.splits import load_split
from zorba_core.data.tasks import get_task
from zorba_core.engine.randomness import stream
from zorba_core.federation import messages
from zorba_core.federation.client import Client
from zorba_core.federation.client_settings import ClientSettings
from zorba_core.federation.config import ServerSettings, read_config
from zorba_core.federation.membership import Incoming
from zorba_core.federation.messages import Aggregate, CatchUp, Refusal, RoundAnswer, RoundTask, Standing
from zorba_core.federation.replica import open_base, open_replica
from zorba_core.federation.server import Server


@pytest.fixture
def server(make_config, make_clients):
    """A server and four clients after an honest round; ``server.clients`` are the clients."""
    config = make_config()
    server = Server(config, ServerSettings(), open_base(config).network, lambda what, content: None)
    server.clients = make_clients()
    for hello in server.greetings(list(server.clients)):
        server.register(
            Incoming(hello.address, server.clients[hello.address].answer(hello.payload)), list(server.clients)
        )
    server.replan()
    plan, outgoing = server.begin_round()
    server.conclude_round(
        plan, [Incoming(sent.address, server.clients[sent.address].answer(sent.payload)) for sent in outgoing]
    )
    return server


def answer_to(server: Server, message) -> RoundAnswer | Standing | Refusal:
    payload = server.clients[100].answer(messages.encode(message))
    return messages.decode(payload, RoundAnswer, Standing, Refusal)


FORGED = {
    "a larger learning rate": (lambda average: {"lr": average.lr * 100}, "the learning rate is 0.1 and .* says 0.001"),
    "seeds of its own choosing": (lambda average: {"seeds_Q": average.seeds_Q + 1}, "its seeds are not those"),
    "fewer seeds": (
        lambda average: {"seeds_Q": average.seeds_Q[:2], "rho_bar_MQ": average.rho_bar_MQ[:, :2]}, "not those",
    ),
    "averages that no loss gives": (lambda average: {"rho_bar_MQ": average.rho_bar_MQ + 1e9}, "no losses give more"),
    "a step longer than the weights": (
        lambda average: {"rho_bar_MQ": np.full_like(average.rho_bar_MQ, 300.0)}, "would move by .* max-step is 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_average_is_refused_with_its_reason_and_changes_nothing(server, name):
    changes, says = FORGED[name]
    (average,) = server.averages
    before = server.clients[100]._replica.fingerprint()
    reply = answer_to(server, CatchUp(server.run, (replace(average, **changes(average)),)))
    assert isinstance(reply, Refusal)
    assert re.search(says, reply.reason), reply.reason
    assert reply.round == 0
    assert server.clients[100]._replica.fingerprint() == before
    honest = answer_to(server, CatchUp(server.run, (average,)))  # it still follows the run
    assert honest.weights_sha256 == server.network.weights_sha256()


def test_a_round_after_the_last_is_refused(server):
    (average,) = server.averages
    answer_to(server, CatchUp(server.run, (average,)))
    last = server.config.settings.rounds
    replica = server.clients[100]._replica
    replica.round = last
    reply = answer_to(server, CatchUp(server.run, (replace(average, round=last + 1),)))
    assert f"round {last + 1} is after the run's last" in reply.reason


def test_a_task_with_other_seeds_or_more_blocks_than_offered_is_refused(server):
    _, outgoing = server.begin_round()
    task = messages.decode(next(sent.payload for sent in outgoing if sent.address == 100), RoundTask)
    reply = answer_to(server, replace(task, blocks=(0, 1, 2)))
    assert "3 blocks are asked for and this client offers 2" in reply.reason
    reply = answer_to(server, replace(task, averages=(), seeds_Q=task.seeds_Q[::-1].copy()))
    assert "its seeds are not those that the run's config draws" in reply.reason
    assert isinstance(answer_to(server, replace(task, averages=())), RoundAnswer)


def test_the_operator_decides_how_far_a_round_may_move_a_block(server):
    (average,) = server.averages
    server.clients[100]._replica.agreed.max_step = 1e-9
    reply = answer_to(server, CatchUp(server.run, (average,)))
    assert "this client's max-step is 1e-09" in reply.reason


CONFIGS = {
    "gaussian": {},
    "unit sphere": {"direction": "unit-sphere"},
    "low rank": {"direction": "low-rank", "rank": 4},
    "numbers whose squares are none": {"lr": 1e200, "dtype": "float64"},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_limit_is_of_the_step_that_is_made_whatever_the_run_s_config_makes_of_averages(
    make_config, tiny_opt_folder, train_settings, name
):
    settings = replace(train_settings, **{"lr": 1.0, **CONFIGS[name]})
    smallest = 1e-6 / settings.lr
    config = make_config(settings)

    def replica():
        return open_replica(config, 0, model=str(tiny_opt_folder))

    def average(opened, size: float) -> Aggregate:
        drawn = opened.agreed._seeds_P
        seeds = stream("round-seeds", settings.seed, opened.round + 1).choice(drawn, 3, replace=False)
        rho_bar_MQ = np.zeros((opened.network.num_blocks, len(seeds)))
        rho_bar_MQ[0] = size
        return Aggregate(opened.round + 1, seeds, rho_bar_MQ, settings.lr)

    def moved(size: float) -> float:
        opened = replica()
        opened.agreed.max_step = np.inf
        before = opened.network.block_weights(0).clone()
        opened.apply((average(opened, size),))
        return float((opened.network.block_weights(0) - before).norm() / before.norm())

    length = moved(smallest) / smallest
    within, beyond = 0.6 / length, 1.6 / length
    assert moved(within) == pytest.approx(0.6, rel=0.05)
    opened = replica()
    opened.apply((average(opened, within),))
    opened = replica()
    before = opened.fingerprint()
    with pytest.raises(messages.MessageError, match="block 0 would move by"):
        opened.apply((average(opened, beyond),))
    assert opened.fingerprint() == before


def test_a_message_with_a_forged_average_is_refused_before_its_honest_ones_are_applied(server):
    (average,) = server.averages
    before = server.clients[100]._replica.fingerprint()
    forged = replace(average, round=2)
    assert isinstance(answer_to(server, CatchUp(server.run, (average, forged))), Refusal)
    assert server.clients[100]._replica.fingerprint() == before


def test_a_server_names_no_folder_of_adapters_on_a_client(make_config, train_settings, tmp_path):
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"r": "a secret"}')
    text = make_config(replace(train_settings, train="lora", adapter=str(folder))).to_json()
    with pytest.raises(messages.MessageError, match="begins from a folder of adapters") as raised:
        read_config(text)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ({"columns": ("text", "label")}, None),
        ({"columns": ("text",)}, "the run reads 'label' of the rows, .* does not allow"),
        ({"min_batch": 4}, None),
        ({"min_batch": 8}, "report on 4 rows a round, and this client's operator asks for 8 at least"),
    ],
)
def test_the_operator_limits_what_a_run_reads(make_config, tiny_opt_folder, tmp_path, own, says):
    frame = load_split(get_task("toy-reviews"), "federated").head(8)
    frame.assign(secret="1234").to_parquet(tmp_path / "rows.parquet")
    rows = {"rows": str(tmp_path / "rows.parquet"), "model": str(tiny_opt_folder)}
    client = Client(ClientSettings(seat=0, blocks=2, **rows, **own))
    config = make_config()
    reply = messages.decode(
        client.answer(messages.encode(messages.Hello(config.run, config.to_json()))), messages.Registration, Refusal
    )
    if says is None:
        assert reply.rows == 8
    else:
        assert re.search(says, reply.reason), reply.reason
