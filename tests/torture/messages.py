"""Malformed messages of a federation, to a client and to the server, between honest ones: nobody falls, and the honest
rounds end as if the malformed ones had not been."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zorba_core.data.tasks import get_task
from zorba_core.engine.settings import TrainSettings
from zorba_core.federation import messages
from zorba_core.federation.client import Client
from zorba_core.federation.client_settings import ClientSettings
from zorba_core.federation.config import RunConfig, ServerSettings
from zorba_core.federation.membership import Incoming
from zorba_core.federation.messages import (
    MessageError,
    Payload,
    Refusal,
    Registration,
    RoundAnswer,
    RoundTask,
    Standing,
)
from zorba_core.federation.replica import open_base
from zorba_core.federation.server import Server

if TYPE_CHECKING:
    from tests.torture.world import World

_TIMES = 450  # malformed messages between two honest rounds
BUDGETS = (3, 2)
JUNK: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 10**40, -0.0, math.nan, math.inf, 1e308, "", "x", "0" * 64, "f" * 64,
    "9" * 5000, "\x00", "é\ud800", [], [1], [1.0], [math.nan] * 3, [[1]], [None], list(range(5000)), [0.0] * 5000,
    {}, {"a": 1}, b"bytes", (1, 2), object(),
)  # fmt: skip


def settings() -> TrainSettings:
    return TrainSettings(
        rounds=3, lr=1e-3, num_perturbations=2, num_seeds=8, batch_size=2, seq_len=32, eval_every=3, eval_rows=8,
        estimator="reference", target=None,
    )  # fmt: skip


def spoil(random_: random.Random, payload: Payload) -> Payload:
    """The message with a field replaced, left out, added or moved, or with another name."""
    values = dict(payload.values)
    kind, name = random_.randrange(6), random_.choice(sorted(values)) if values else "run"
    if kind == 0:
        values.pop(name, None)
    elif kind == 1:
        values[f"{name}x"] = random_.choice(JUNK)
    elif kind == 2:
        return Payload(random_.choice(("task", "answer", "hello", "", "catch-up", "x" * 5000, None, 7)), values)
    elif kind == 3 and isinstance(values.get(name), list) and values[name]:
        items = list(values[name])
        items[random_.randrange(len(items))] = random_.choice(JUNK)
        values[name] = items
    elif kind == 4 and isinstance(values.get(name), list):
        values[name] = values[name] * random_.choice((0, 2, 2000))
    else:
        values[name] = random_.choice(JUNK)
    return Payload(payload.what, values)


def federation(world: World) -> tuple[Server, dict[int, Client]]:
    """A server and two clients that have joined."""
    config = RunConfig("toy-reviews", str(world.model), get_task("toy-reviews").label_words, 2, 1.0, settings())
    server = Server(config, ServerSettings(min_clients=2), open_base(config).network, lambda what, content: None)
    clients = {
        100 + seat: Client(ClientSettings(seat=seat, blocks=blocks, model=str(world.model)))
        for seat, blocks in enumerate(BUDGETS)
    }
    for hello in server.greetings(list(clients)):
        server.register(Incoming(hello.address, clients[hello.address].answer(hello.payload)), list(clients))
    server.replan()
    return server, clients


def to_clients(world: World, random_: random.Random, folder: Path) -> int:
    """Malformed messages to clients, before each honest round; the replicas end equal to the server's."""
    server, clients = federation(world)
    count = 0
    for _ in range(settings().rounds):
        plan, outgoing = server.begin_round()
        for _ in range(_TIMES):
            sent = random_.choice(outgoing)
            spoiled = spoil(random_, sent.payload)
            if is_lie(spoiled, sent.payload):
                continue
            answer = clients[sent.address].answer(spoiled)
            messages.decode(answer, Registration, RoundAnswer, Standing, Refusal)
            count += 1
        incoming = [Incoming(sent.address, clients[sent.address].answer(sent.payload)) for sent in outgoing]
        assert server.conclude_round(plan, incoming) is not None, "an honest round was refused"
    check_equal(server, clients)
    return count


def is_lie(spoiled: Payload, honest: Payload) -> bool:
    """Well formed, with other averages: a server's to choose within bounds (tests/federation/test_malicious_server)."""
    try:
        sent = messages.decode(spoiled, RoundTask)
    except MessageError:
        return False
    expected = messages.decode(honest, RoundTask)
    return len(sent.averages) != len(expected.averages) or any(
        a.rho_bar_MQ.tobytes() != b.rho_bar_MQ.tobytes() for a, b in zip(sent.averages, expected.averages, strict=True)
    )


def to_server(world: World, random_: random.Random, folder: Path) -> int:
    """Malformed answers among the honest ones: none raises, and what was sent is not believed."""
    server, clients = federation(world)
    count = 0
    for _ in range(settings().rounds):
        plan, outgoing = server.begin_round()
        honest = [Incoming(sent.address, clients[sent.address].answer(sent.payload)) for sent in outgoing]
        bad = [_spoiled(random_, random_.choice(honest)) for _ in range(_TIMES)]
        for message in bad:
            server.register(message, list(clients))
            server.hear_standing([message])
        result = server.conclude_round(plan, [*honest, *bad])
        assert result is not None, "honest answers were not used"
        assert (result.status_N == 0).all(), "an honest answer was pushed out"
        assert all(math.isfinite(value) for value in result.rho_bar_MQ.ravel())
        count += len(bad)
    check_equal(server, clients)
    return count


def _spoiled(random_: random.Random, honest: Incoming) -> Incoming:
    address = random_.choice((honest.address, 7, -1, 10**30))
    if random_.random() < 0.1:
        return Incoming(address, None, "timeout")
    payload = spoil(random_, honest.payload)
    return Incoming(address if payload.values != honest.payload.values else 7, payload)


def check_equal(server: Server, clients: dict[int, Client]) -> None:
    for sent in server.catch_ups():
        standing = messages.decode(clients[sent.address].answer(sent.payload), Standing)
        assert standing.weights_sha256 == server.network.weights_sha256(), "a replica is not the server's"
