"""The ClientApp of a simulation: whichever of Ray's workers gets a message answers it from its household."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from zorba_core.federation.flower.client_app import answered, client_settings
from zorba_core.federation.flower.simulation import NODES
from zorba_core.federation.messages import CATCH_UP, HELLO
from zorba_core.federation.shared_replica import Household


def client_app(folder: str) -> ClientApp:
    """For the clients that are described in a folder."""
    app = ClientApp()

    @app.query(HELLO)
    @app.query(CATCH_UP)
    @app.train()
    def answer(message: Message, context: Context) -> Message:
        seat = int(context.node_config["partition-id"])
        return answered(message, lambda payload: _household(folder).answer(seat, payload))

    return app


@cache
def _household(folder: str) -> Household:
    """This worker's, for as long as it lives."""
    nodes = json.loads((Path(folder) / NODES).read_text(encoding="utf-8"))["nodes"]
    place = Path(folder) / "household"
    settings = [client_settings({"seat": seat, "replica": str(place), **node})[0] for seat, node in enumerate(nodes)]
    return Household(settings, place)
