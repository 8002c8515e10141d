"""The transport without processes: clients are objects, a message is a call. The rounds are the same as over a
network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zorba_core.federation.client import Client
from zorba_core.federation.fleet import Address
from zorba_core.federation.membership import Incoming, Outgoing


class InProcess:
    """Clients by address. The mapping may change between rounds: clients then come and go."""

    def __init__(self, clients: Mapping[Address, Client]) -> None:
        self.clients = clients

    def present(self) -> Sequence[Address]:
        return list(self.clients)

    def exchange(self, outgoing: Sequence[Outgoing], deadline: float) -> list[Incoming]:
        """Everyone's answer, in the order asked."""
        return [
            Incoming(message.address, self.clients[message.address].answer(message.payload))
            for message in outgoing
            if message.address in self.clients
        ]
