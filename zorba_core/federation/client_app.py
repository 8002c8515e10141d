"""The ClientApp: one message in, one answer out. What is computed is in :mod:`zorba_core.federation.replica`.

Flower starts a new process for each message, in which the replica is built again from the base model and all averages.
A SuperNode started by :mod:`zorba_core.federation.resident` keeps this module, and with it the replica, in one process;
``RESIDENT`` is then true, and a message brings only the averages that are new.

The keys of the SuperNode's ``--node-config`` are those of :class:`zorba_core.federation.replica.NodeConfig`, with
Flower's ``partition-id``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from zorba_core.errors import ZorbaError, one_line
from zorba_core.federation import protocol
from zorba_core.federation.protocol import ProtocolError, Task
from zorba_core.federation.replica import Client, NodeConfig, Replica
from zorba_core.federation.request import Terms
from zorba_core.runs.load import use_threads

RESIDENT = False
_run = ""  # of the clients below
_replica: Replica | None = None
_clients: dict[int, Client] = {}  # by partition: one, or all virtual clients of this process

app = ClientApp()


def _answers(work: Callable[[Message, Context, NodeConfig], RecordDict]) -> Callable[[Message, Context], Message]:
    """A handler that answers with what ``work`` returns, or says why it cannot: the server drops such an answer and
    goes on without this client."""

    def handler(message: Message, context: Context) -> Message:
        try:
            own = NodeConfig.of(context.node_config)
            with use_threads(own.threads):
                records = work(message, context, own)
        except (ProtocolError, ZorbaError) as error:
            records = _records({"error": one_line(error)[: protocol.MAX_REASON]})
        return Message(records, reply_to=message)

    return handler


@app.query("hello")
@_answers
def hello(message: Message, context: Context, own: NodeConfig) -> RecordDict:
    """Open the replica and this client's rows, and say who it is."""
    run, terms, needs_prior = protocol.read_hello(message.content)
    client = _open(run, Terms.read(terms), own)
    protocol.store_hello(message.content, context.state)
    place = {"partition": own.partition, "rows": len(client.rows), "base": client.replica.base_sha256}
    return _records({**place, **({"prior_C": client.label_prior().tolist()} if needs_prior else {})})


@app.train()
@_answers
def train(message: Message, context: Context, own: NodeConfig) -> RecordDict:
    """The scalars of a round."""
    client, task = _followed(message, context, own)
    rho_Q, loss, passes = client.scalars(task)
    return _records({"round": task.round, "loss": loss, "passes": passes}, rho_Q)


@app.evaluate()
@_answers
def evaluate(message: Message, context: Context, own: NodeConfig) -> RecordDict:
    """The loss on the rows held out, for the learning rate."""
    client, task = _followed(message, context, own)
    loss, weight = client.held_out_loss(task)
    return _records({"loss": loss, "weight": weight})


@app.query("catch_up")
@_answers
def catch_up(message: Message, context: Context, own: NodeConfig) -> RecordDict:
    """Follow the averages, and show which weights they lead to."""
    client, _ = _followed(message, context, own)
    return _records({"weights": client.replica.network.weights_sha256()})


def _open(run: str, terms: Terms, own: NodeConfig) -> Client:
    """The client of a run in this process, opened when first asked for; another run's is dropped."""
    global _run, _replica
    if run != _run:
        _clients.clear()
        _run, _replica = run, None
    if _replica is None:
        _replica = Replica(terms, own.model, own.device)
    if own.partition not in _clients:
        _clients[own.partition] = Client(terms, own, _replica)
    return _clients[own.partition]


def _followed(message: Message, context: Context, own: NodeConfig) -> tuple[Client, Task]:
    """The client whose task this is, its replica moved through the averages."""
    task = protocol.read_task(message.content)
    if task.run != _run or own.partition not in _clients:  # a new process
        run, terms, _ = protocol.read_hello(context.state)
        if run != task.run:
            raise ProtocolError("the run has not greeted this client")
        _open(run, Terms.read(terms), own)
    client = _clients[own.partition]
    client.replica.follow(task)
    return client, task


def _records(values: dict[str, Any], rho_Q: np.ndarray | None = None) -> RecordDict:
    """An answer, with the round after which the next message's averages are to begin; a process that ends with its
    answer keeps nothing."""
    replica_round = _replica.round if RESIDENT and _replica is not None else 0
    return protocol.answer_records({**values, "replica_round": replica_round}, rho_Q)
