"""The ClientApp: one message in, one answer out. What is computed is in :mod:`zorba_core.federation.replica`.

Flower starts a new process for each message, in which the replica is built again from the base model and all averages.
A SuperNode started by :mod:`zorba_core.federation.resident` keeps this module, and with it the replica, in one process;
``RESIDENT`` is then true, and a message brings only the averages that are new.

The keys of the SuperNode's ``--node-config`` are those of :class:`zorba_core.federation.replica.NodeConfig`, with
Flower's ``partition-id``.
"""

from __future__ import annotations

from collections.abc import Callable

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


@app.query("hello")
def hello(message: Message, context: Context) -> Message:
    """Open the replica and this client's rows, and say who it is."""

    def hello(own: NodeConfig) -> RecordDict:
        run, terms, needs_prior = protocol.read_hello(message.content)
        client = _open(run, Terms.read(terms), own)
        place = {"partition": client.own.partition, "rows": len(client.rows), "base": client.replica.base_sha256}
        prior = {"prior_C": client.label_prior().tolist()} if needs_prior else {}
        context.state.config_records["zorba"] = protocol.saved_terms(run, terms)
        return protocol.answer_records({**place, **prior, **_replica_round()})

    return _answered(message, context, hello)


@app.train()
def train(message: Message, context: Context) -> Message:
    """The scalars of a round."""

    def reported(own: NodeConfig) -> RecordDict:
        client, task = _followed(message, context, own)
        rho_Q, loss, passes = client.scalars(task)
        return protocol.answer_records({"round": task.round, "loss": loss, "passes": passes, **_replica_round()}, rho_Q)

    return _answered(message, context, reported)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """The loss on the rows held out, for the learning rate."""

    def measured(own: NodeConfig) -> RecordDict:
        client, task = _followed(message, context, own)
        loss, weight = client.held_out_loss(task)
        return protocol.answer_records({"loss": loss, "weight": weight, **_replica_round()})

    return _answered(message, context, measured)


@app.query("catch_up")
def catch_up(message: Message, context: Context) -> Message:
    """Follow the averages, and show which weights they lead to."""

    def shown(own: NodeConfig) -> RecordDict:
        client, _ = _followed(message, context, own)
        return protocol.answer_records({"weights": client.replica.network.weights_sha256(), **_replica_round()})

    return _answered(message, context, shown)


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
        run, terms = protocol.read_terms(context.state.config_records.get("zorba"))
        if run != task.run:
            raise ProtocolError("the run has not greeted this client")
        _open(run, Terms.read(terms), own)
    client = _clients[own.partition]
    client.replica.follow(task)
    return client, task


def _replica_round() -> dict[str, int]:
    """After which round the next message's averages are to begin; a process that ends with its answer keeps nothing."""
    return {"replica_round": _replica.round if RESIDENT and _replica is not None else 0}


def _answered(message: Message, context: Context, work: Callable[[NodeConfig], RecordDict]) -> Message:
    """The answer, or why there is none: the server drops it and goes on without this client."""
    try:
        own = NodeConfig.of(context.node_config)
        with use_threads(own.threads):
            records = work(own)
    except (ProtocolError, ZorbaError) as error:
        records = protocol.answer_records({"error": one_line(error)[: protocol.MAX_REASON], **_replica_round()})
    return Message(records, reply_to=message)
