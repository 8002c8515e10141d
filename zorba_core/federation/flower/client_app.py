"""The ClientApp: one message in, one answer out, in a process that Flower starts for it.

What the node's operator decides stands in the SuperNode's ``--node-config``:

    seat=2            whose rows these are (default: partition-id)
    blocks=4          most blocks to activate, or vram-gib=8.0; with device="cuda" neither: free memory is measured
    replica="..."     the folder that keeps this client's replica between messages
    model="..."       the base model's folder here (needed unless the run's is one that comes with this package)
    rows="..."        the file with this client's own rows: CSV, TSV, JSON, Parquet or Excel, with the columns that the
                      run's task reads (default, for built-in datasets alone: its share, which is a rehearsal)
    device="cpu"  threads=1
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from zorba_core.errors import InvalidInputError
from zorba_core.federation.client import Client
from zorba_core.federation.client_settings import ClientSettings
from zorba_core.federation.flower.records import from_records, to_records
from zorba_core.federation.messages import CATCH_UP, HELLO, MessageError, Payload
from zorba_core.federation.replica_store import ReplicaStore
from zorba_core.vram import GIB

app = ClientApp()
_PLACE, _MEANS = ("seat", "partition-id", "num-partitions"), ("blocks", "vram-gib", "device", "threads")
_KNOWN = (*_PLACE, *_MEANS, "replica", "model", "rows")


@app.query(HELLO)
@app.query(CATCH_UP)
@app.train()
def answer(message: Message, context: Context) -> Message:
    """Every kind of message goes the same way; the protocol's own reading tells them apart."""
    settings, folder = client_settings(context.node_config)
    return answered(message, Client(settings, ReplicaStore(folder)))


def answered(message: Message, client: Client) -> Message:
    """The client's reply to a message."""
    try:
        payload = from_records(message.content)
    except MessageError as error:
        payload = Payload(str(error))
    return Message(to_records(client.answer(payload), up=True), reply_to=message)


def client_settings(node_config: Mapping) -> tuple[ClientSettings, Path]:
    """What the node's operator decided, and the replica's folder.

    Raises:
        InvalidInputError: an unknown key, a missing one, or a value of the wrong type.
    """
    unknown = sorted(set(node_config) - set(_KNOWN))
    if unknown:
        raise InvalidInputError(f"--node-config has unknown keys {', '.join(unknown)}; known: {', '.join(_KNOWN)}")
    seat = node_config.get("seat", node_config.get("partition-id"))
    if type(seat) is not int or "replica" not in node_config:
        raise InvalidInputError('--node-config needs seat=NUMBER (or partition-id) and replica="FOLDER"')
    try:
        settings = ClientSettings(
            seat=seat,
            blocks=int(node_config.get("blocks", 0)),
            vram_bytes=round(float(node_config.get("vram-gib", 0)) * GIB),
            model=node_config.get("model"),
            rows=node_config.get("rows"),
            device=str(node_config.get("device", "cpu")),
            threads=int(node_config.get("threads", 1)),
        )
    except (TypeError, ValueError, OverflowError) as error:  # the last: of an infinite number
        raise InvalidInputError(f"--node-config: {error}") from None
    return settings, Path(os.path.expanduser(str(node_config["replica"])))
