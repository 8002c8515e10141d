"""Deaths of a federation's server and of its clients, at every operation on their files, in one process.

The one that dies leaves what its files hold; the others live on, with the messages that they have had.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from pathlib import Path

from tests.torture.faults import DEATHS, Death, Dying, Faults
from tests.torture.messages import BUDGETS, settings
from tests.torture.world import World
from zorba_core.data.tasks import get_task
from zorba_core.federation.client import Client
from zorba_core.federation.client_settings import ClientSettings
from zorba_core.federation.config import RunConfig, ServerSettings
from zorba_core.federation.in_process import InProcess
from zorba_core.federation.membership import Incoming, Outgoing
from zorba_core.federation.replica_store import ReplicaStore
from zorba_core.federation.session import resume, serve
from zorba_core.runs import Run, read_run

_SERVER = ServerSettings(min_clients=len(BUDGETS), start_timeout=20.0, deadline=0.5)


def _config(world: World) -> RunConfig:
    words = get_task("toy-reviews").label_words
    return RunConfig("toy-reviews", str(world.model), words, len(BUDGETS), 1.0, settings())


def _client(world: World, seat: int, store: Path | None = None) -> Client:
    own = ClientSettings(seat=seat, blocks=BUDGETS[seat], model=str(world.model))
    return Client(own, None if store is None else ReplicaStore(store))


def _clients(world: World, first: int = 100) -> dict[int, Client]:
    return {first + seat: _client(world, seat) for seat in range(len(BUDGETS))}


_WHOLE: dict[Path, tuple[str, int]] = {}


def _whole(world: World) -> tuple[str, int]:
    """(weights of a federation that nothing disturbed, file operations of its server), made once in a process."""
    if world.folder not in _WHOLE:
        runs = world.folder / "watched" / "server"
        with Faults(runs) as faults:
            run = serve(_config(world), _SERVER, InProcess(_clients(world)), runs_folder=runs, name="whole", force=True)
        _WHOLE[world.folder] = run.summary["weights_sha256"], faults.count
    return _WHOLE[world.folder]


def server_dies(world: World, random_: random.Random, folder: Path) -> int:
    """The server dies, perhaps again while it resumes; its clients live on, or are other processes too. It ends with
    the bits of an undisturbed federation, and so do all replicas."""
    weights, operations = _whole(world)
    clients, runs, deaths = _clients(world), folder / "runs", 0
    run: Run | None = None
    for life in range(4):
        at = random_.randint(1, operations) if life < 3 and (life == 0 or random_.random() < 0.5) else None
        with contextlib.suppress(Death), Dying(runs, random_.choice(DEATHS), at) as dying:
            begun = _begun(runs)
            if begun is None:
                run = serve(_config(world), _SERVER, InProcess(clients), runs_folder=runs, name="run", force=True)
            elif not (begun / "summary.json").is_file():
                run = resume(begun, InProcess(clients))
            else:
                run = read_run(begun)
        if not dying.dead:
            break
        deaths += 1
        run = None
        clients = _clients(world, 200 + life * 10) if random_.random() < 0.5 else clients
        if random_.random() < 0.5:  # their connections are new ones
            clients = {address + 1000: client for address, client in clients.items()}
    assert run is not None
    check_replicas(run)
    assert run.summary["weights_sha256"] == weights, "other weights than undisturbed"
    assert len(run.summary["replicas"]) == len(BUDGETS)
    left = [path.name for path in run.path.iterdir() if path.name.startswith(".")]
    assert not left, f"left behind: {left}"
    return deaths


def _begun(runs: Path) -> Path | None:
    begun = sorted(runs.glob("*/allocation.npz"))
    return begun[-1].parent if begun else None


def check_replicas(run: Run) -> None:
    unequal = [client for client in run.summary["replicas"] if not client["equal"]]
    assert not unequal, f"replicas that are not the server's: {unequal}"


class Mortal(InProcess):
    """Clients of which one dies at an operation on its files; another process opens its folder some time later."""

    def __init__(self, world: World, random_: random.Random, folder: Path) -> None:
        self._world, self._random, self._folder = world, random_, folder
        super().__init__({100 + seat: _client(world, seat, self._store(seat)) for seat in range(len(BUDGETS))})
        self.victim = random_.randrange(len(BUDGETS))
        self._ticks, self._back_at = 0, 0  # looks and exchanges so far; at which of them the dead one is back
        self.deaths = 0
        self._dying = self._next_death()

    def _store(self, seat: int) -> Path:
        return self._folder / f"seat-{seat}"

    def _next_death(self) -> Dying:
        return Dying(self._store(self.victim), self._random.choice(DEATHS), self._random.randint(1, 40))

    def present(self) -> Sequence[int]:
        self._ticks += 1
        if self._back_at and self._ticks >= self._back_at:
            self._back_at = 0
            self.clients[500 + self.deaths] = _client(self._world, self.victim, self._store(self.victim))
            self._dying = self._next_death() if self.deaths < 3 and self._random.random() < 0.5 else None
        return super().present()

    def exchange(self, outgoing: Sequence[Outgoing], deadline: float) -> list[Incoming]:
        self._ticks += 1
        answers = []
        for message in outgoing:
            client = self.clients.get(message.address)
            if client is None:
                continue
            dying = self._dying if client.settings.seat == self.victim else None
            try:
                with dying or contextlib.nullcontext():
                    answers.append(Incoming(message.address, client.answer(message.payload)))
            except Death:
                del self.clients[message.address]
                self.deaths += 1
                self._back_at, self._dying = self._ticks + self._random.randint(1, 4), None
        return answers


def client_dies(world: World, random_: random.Random, folder: Path) -> int:
    """A client dies at an operation on its replica's files, and comes back from its folder: the run goes on without it,
    and every replica that is there at the end has the server's weights."""
    transport = Mortal(world, random_, folder)
    run = serve(_config(world), _SERVER, transport, runs_folder=folder / "runs", name="run", force=True)
    assert run.summary["rounds_done"] == settings().rounds
    check_replicas(run)
    there = {client.settings.seat for client in transport.clients.values()}
    reported = {client["seat"] for client in run.summary["replicas"]}
    assert there - {transport.victim} <= reported <= there  # who comes back behind the last look is not asked
    left = [path.name for seat in reported for path in (folder / f"seat-{seat}").rglob(".*")]
    assert not left, f"left behind: {left}"
    return transport.deaths
