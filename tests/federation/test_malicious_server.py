"""A client applies only what its run and its operator allow: a server that sends something else is told so."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from zorba_core.federation import messages
from zorba_core.federation.config import ServerSettings
from zorba_core.federation.membership import Incoming
from zorba_core.federation.messages import CatchUp, Refusal, RoundAnswer, RoundTask, Standing
from zorba_core.federation.replica import open_base
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
