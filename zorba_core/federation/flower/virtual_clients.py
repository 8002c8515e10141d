"""The ClientApp of a simulation: the Ray worker that gets a message answers it from its shared replica."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from zorba_core.federation.flower.client_app import answered, client_settings
from zorba_core.federation.flower.simulation import read_nodes
from zorba_core.federation.messages import CATCH_UP, HELLO
from zorba_core.federation.shared_replica import VirtualClients


def client_app(folder: str) -> ClientApp:
    """For the clients that are described in a folder."""
    app = ClientApp()

    @app.query(HELLO)
    @app.query(CATCH_UP)
    @app.train()
    def answer(message: Message, context: Context) -> Message:
        seat = int(context.node_config["partition-id"])
        return answered(message, lambda payload: _virtual_clients(folder).answer(seat, payload))

    return app


@cache
def _virtual_clients(folder: str) -> VirtualClients:
    """This worker's clients; they live as long as the worker."""
    nodes, _ = read_nodes(Path(folder))
    place = Path(folder) / "shared-replica"
    settings = [client_settings({"seat": seat, "replica": str(place), **node})[0] for seat, node in enumerate(nodes)]
    return VirtualClients(settings, place)
