"""Trial rounds with the clients of a federation, for :func:`zorba_core.runs.rate.search_rate`."""

from __future__ import annotations

from dataclasses import replace

from zorba_core.engine.loop import Training, init, next_round
from zorba_core.federation.protocol import EVALUATE, Line
from zorba_core.federation.remote import RemoteClients
from zorba_core.runs.rate import held_out_positions


class RemoteTrials:
    """Trial rounds, in lines that start at the base model, whose weights the network has at each begin."""

    def __init__(self, training: Training, clients: RemoteClients, written: bool) -> None:
        settings, seats = training.settings, clients.members.seats
        rows_N = [seats[n].rows if n in seats else 0 for n in range(training.allocation.num_clients)]
        held_out = held_out_positions(rows_N, settings.seed)
        clients.held_out = {n: tuple(map(int, rows)) for n, rows in enumerate(held_out)}
        self.written, self.held_out_rows = written, sum(map(len, clients.held_out.values()))
        self._clients = clients
        self._training = replace(training, settings=settings.replace(schedule="constant"), backs_off=False)

    def begin(self, start: int) -> None:
        """Start a line of trial rounds; the first is start + 1."""
        members = self._clients.members
        members.begin(Line(members.line.number + 1, start))
        self._state = replace(init(self._training.network, self._training.settings), rounds_done=start)

    def step(self, lr: float) -> None:
        """A trial round.

        Raises:
            RunError: no client's scalars were usable.
        """
        training = replace(self._training, settings=self._training.settings.replace(lr=lr))
        self._state, _ = next_round(training, self._state)

    def loss(self) -> float:
        """The mean loss over the clients' held-out rows, nats, after the line's last round."""
        clients = self._clients
        chosen = [client for client in clients.members.free() if clients.held_out[client]]
        answers = clients.members.exchange(EVALUATE, {client: clients.instruction(client) for client in chosen})
        losses = clients.read(answers, lambda answer: (answer.number("loss"), answer.number("weight"))).values()
        loss, weight = sum(loss for loss, _ in losses), sum(weight for _, weight in losses)
        return loss / weight if weight else float("inf")

    def end(self) -> None:
        """Return the clients to the base model, for the run."""
        self._clients.held_out = {}
        self._clients.members.begin(Line())
