"""The ClientApp: one message in, one answer out. :mod:`zorba_core.federation.replica` computes the answers.

Flower starts a new process for each message, which builds the replica again from the base model and all averages. A
SuperNode started by :mod:`zorba_core.federation.resident` has one process for all messages. There ``RESIDENT`` is true,
the replica stays in memory, and a message brings only new averages.

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
from zorba_core.federation.protocol import Instruction, ProtocolError
from zorba_core.federation.replica import Client, NodeConfig, Replica
from zorba_core.federation.request import Terms
from zorba_core.runs.load import use_threads

RESIDENT = False
_run = ""  # name of the run that _replica and _clients belong to
_replica: Replica | None = None
_clients: dict[int, Client] = {}  # by partition; in a simulation, all virtual clients

app = ClientApp()


def _answers(work: Callable[[Message, Context, NodeConfig], RecordDict]) -> Callable[[Message, Context], Message]:
    """Wrap ``work`` into a message handler. An expected error becomes an answer with the reason; the server drops that
    answer and continues without this client."""

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
    """Open the replica and this client's rows; answer with the partition, the number of rows and the base model's
    hash."""
    run, terms = protocol.read_hello(message.content)
    client = _open(run, Terms.read(terms), own)
    protocol.store_hello(message.content, context.state)
    return _records({"partition": own.partition, "rows": len(client.frame), "base": client.replica.base_sha256})


@app.query("prompts")
@_answers
def prompts(message: Message, context: Context, own: NodeConfig) -> RecordDict:
    """The loss of each prompt on some of this client's rows."""
    client, instruction = _followed(message, context, own)
    return _records({"losses": client.prompt_losses(instruction)})


@app.train()
@_answers
def train(message: Message, context: Context, own: NodeConfig) -> RecordDict:
    """The scalars of a round."""
    client, instruction = _followed(message, context, own)
    rho_Q, loss, passes = client.scalars(instruction)
    return _records({"round": instruction.round, "loss": loss, "passes": passes}, rho_Q)


@app.evaluate()
@_answers
def evaluate(message: Message, context: Context, own: NodeConfig) -> RecordDict:
    """The model's preference among the label words on this client's rows."""
    client, instruction = _followed(message, context, own)
    return _records({"prior_C": client.preference(instruction).tolist()})


@app.query("catch_up")
@_answers
def catch_up(message: Message, context: Context, own: NodeConfig) -> RecordDict:
    """Apply all averages, and return the hash of the weights."""
    client, _ = _followed(message, context, own)
    return _records({"weights": client.replica.network.weights_sha256()})


def _open(run: str, terms: Terms, own: NodeConfig) -> Client:
    """This process's client of a run. The first call opens it, and closes those of another run."""
    global _run, _replica
    if run != _run:
        _clients.clear()
        _run, _replica = run, None
    if _replica is None:
        _replica = Replica(terms, own.model, own.device)
    if own.partition not in _clients:
        _clients[own.partition] = Client(terms, own, _replica)
    return _clients[own.partition]


def _followed(message: Message, context: Context, own: NodeConfig) -> tuple[Client, Instruction]:
    """The message's client and instruction, after the replica has applied the instruction's averages."""
    instruction = protocol.read_instruction(message.content)
    if instruction.run != _run or own.partition not in _clients:  # a new process
        run, terms = protocol.read_hello(context.state)
        if run != instruction.run:
            raise ProtocolError("the client has no greeting of this run")
        _open(run, Terms.read(terms), own)
    client = _clients[own.partition]
    client.replica.follow(instruction)
    return client, instruction


def _records(values: dict[str, Any], rho_Q: np.ndarray | None = None) -> RecordDict:
    """An answer with ``replica_round``: the next message needs the averages after this round. It is 0 where the process
    ends after its answer."""
    replica_round = _replica.round if RESIDENT and _replica is not None else 0
    return protocol.answer_records({**values, "replica_round": replica_round}, rho_Q)
