"""The soak with clients in one process: more of them, and faults in every other round.

Clients die (and come back from their folder, or from an empty one), fall silent for some rounds, change their capacity
and come late; the server dies at an operation on its files and resumes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.torture.__main__ import _machine
from tests.torture.faults import DEATHS, Death, Dying
from zorba_core.federation.client import Client
from zorba_core.federation.client_settings import ClientSettings
from zorba_core.federation.config import RunConfig, ServerSettings
from zorba_core.federation.in_process import InProcess
from zorba_core.federation.membership import Incoming, Outgoing
from zorba_core.federation.messages import TRAIN
from zorba_core.federation.replica_store import ReplicaStore
from zorba_core.federation.session import resume, serve
from zorba_core.runs import TRAJECTORY, Run, read_run
from zorba_core.runs.trajectory import read_trajectory

KINDS = ("kill", "kill", "kill with its disk", "silence", "silence", "capacity", "server")
_SERVER_EVERY = 400  # operations on its files, about


@dataclass
class Crowd(InProcess):
    """Clients to whom things happen before an exchange of tasks."""

    folder: Path
    model: str
    num_clients: int
    late: int
    random: np.random.Generator
    clients: dict[int, Client] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    levels: list[dict[str, int]] = field(default_factory=list)
    seconds: list[tuple[bool, float]] = field(default_factory=list)  # of each round, and whether something happened
    rounds: int = 0

    def __post_init__(self) -> None:
        self._next, self._addresses = 2, 100
        self._coming: dict[int, int] = {self.num_clients - 1 - n: 5 + 7 * n for n in range(self.late)}
        self._silent: dict[int, int] = {}
        self._began, self._happened = time.monotonic(), False
        for seat in range(self.num_clients - self.late):
            self._open(seat)

    def _open(self, seat: int, blocks: int | None = None) -> None:
        self._addresses += 1
        own = ClientSettings(seat=seat, blocks=blocks or 1 + seat % 3, model=self.model)
        self.clients[self._addresses] = Client(own, ReplicaStore(self.folder / f"seat-{seat}"))

    def exchange(self, outgoing: Sequence[Outgoing], deadline: float) -> list[Incoming]:
        if any(message.kind == TRAIN for message in outgoing):
            self._a_round()
        answers = super().exchange(outgoing, deadline)
        return [answer for answer in answers if self._silent.get(answer.address, -1) < self.rounds]

    def _a_round(self) -> None:
        now = time.monotonic()
        if self.rounds:
            self.seconds.append((self._happened, now - self._began))
        self._began, self._happened = now, False
        self.rounds += 1
        if self.rounds % 10 == 1:
            resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            self.levels.append(
                {"round": self.rounds, "bytes": resident, "open_files": len(os.listdir("/proc/self/fd"))}
            )
        for seat, at in list(self._coming.items()):
            if self.rounds >= at:
                del self._coming[seat]
                self._note("start", seat)
                self._open(seat)
        if self.rounds >= self._next:
            self._next = self.rounds + int(self.random.integers(1, 4))
            self._fault()

    def _fault(self) -> None:
        kind = str(self.random.choice(KINDS[:-1]))
        address = int(self.random.choice(sorted(self.clients)))
        seat, back = self.clients[address].settings.seat, self.rounds + int(self.random.integers(1, 6))
        self._note(kind, seat)
        if kind == "silence":
            self._silent[address] = back
            return
        del self.clients[address]
        if kind == "capacity":
            self._open(seat, int(self.random.integers(1, 4)))
            return
        if kind == "kill with its disk":
            with contextlib.suppress(FileNotFoundError):  # it may have died before it wrote
                shutil.rmtree(self.folder / f"seat-{seat}")
        self._coming[seat] = back

    def _note(self, what: str, who: Any) -> None:
        self._happened = True
        self.events.append({"what": what, "who": who, "round": self.rounds})

    def server_died(self) -> None:
        self._note("server", "server")


def soak(asked: Any, folder: Path, config: RunConfig) -> int:
    """The run, begun again after each death of its server, and its report."""
    from tests.torture.soak import save

    generator = np.random.default_rng(asked.seed)
    crowd = Crowd(folder, config.model, asked.nodes, asked.late, generator)
    settings = ServerSettings(min_clients=asked.nodes - asked.late, start_timeout=900.0, deadline=0.1, patience=3)
    runs, began = folder / "runs", time.monotonic()
    run: Run | None = None
    while run is None:
        begun = sorted(runs.glob("*/allocation.npz"))
        at = int(generator.integers(1, 2 * _SERVER_EVERY))
        with contextlib.suppress(Death), Dying(runs, str(generator.choice(DEATHS)), at):
            if begun and (begun[-1].parent / "summary.json").is_file():
                run = read_run(begun[-1].parent)
            elif begun:
                run = resume(begun[-1].parent, crowd)
            else:
                run = serve(config, settings, crowd, runs_folder=runs, name="soak", force=True)
        if run is None:
            crowd.server_died()
    faults = [event for event in crowd.events if event["what"] != "start"]
    usual = [seconds for happened, seconds in crowd.seconds if not happened]
    touched = [seconds for happened, seconds in crowd.seconds if happened]
    counts: dict[str, int] = {}
    for note in read_trajectory(run.path / TRAJECTORY).notes:
        counts[note.what] = counts.get(note.what, 0) + 1
    replicas = run.summary["replicas"]
    half_written = [path.name for path in folder.rglob(".*")]
    section = {
        "nodes": asked.nodes, "late": asked.late, "asked": asked.rounds, "seed": asked.seed,
        "rounds": run.summary["rounds_done"], "seconds": round(time.monotonic() - began, 1), "faults": len(faults),
        "faults_by_kind": {kind: sum(event["what"] == kind for event in faults) for kind in dict.fromkeys(KINDS)},
        "replicas": len(replicas), "replicas_equal": sum(client["equal"] for client in replicas),
        "half_written_files_left": half_written, "median_seconds_of_a_round": float(np.median(usual)),
        "median_seconds_of_a_round_with_a_fault": float(np.median(touched)), "process": crowd.levels,
        "log_notes": counts,
        "resumed_after_rounds": run.summary["resumed_after_rounds"], "reports": run.summary["reports"],
        "machine": _machine(),
    }  # fmt: skip
    kept = section["rounds"] == asked.rounds and section["replicas_equal"] == len(replicas) > 0
    save(asked, {**section, "completed": kept})
    print({name: value for name, value in section.items() if name not in ("process", "machine")})
    return 0 if kept else 1
