"""A federation of real SuperNodes under seeded faults, for as many rounds as asked. Run by hand::

    python -m tests.torture.soak [--nodes 8] [--rounds 200] [--seed 0] [--out artifacts/benchmarks/soak.json]

Every few rounds something happens to somebody: a node is killed and started again, paused (SIGSTOP) for a while, or
started late for the first time; the SuperLink with the server is killed and started on the run's folder. Checked at
the end: the run has all its rounds; every replica that is left has the server's weights; no process and no port of the
deployment is left. Reported: the faults, seconds of rounds with and without one, memory of the server's processes by
time, and what the log says of joins and leaves. Exit status 1 where a promise was broken.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from tests.tiny_models import make_tokenizer, tiny_model
from tests.torture.__main__ import _machine
from zorba_core.data.tasks import get_task
from zorba_core.engine.settings import TrainSettings
from zorba_core.federation.config import RunConfig, ServerSettings
from zorba_core.federation.flower.app_folder import write_app, write_request
from zorba_core.federation.flower.deployment import Deployment, ended_by_signals, read_json
from zorba_core.federation.flower.loopback import await_result
from zorba_core.federation.request import request_config
from zorba_core.files import write_sealed
from zorba_core.runs import TRAJECTORY, read_run
from zorba_core.runs.trajectory import read_trajectory

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("kill", "kill", "kill", "pause", "pause", "server")


class Soak:
    """Watches the run and does what the seed says, when a round is in the log."""

    def __init__(self, deployment: Deployment, nodes: list[dict], request: dict, folder: Path, asked: Any) -> None:
        self.deployment, self.nodes, self.request, self.folder, self.asked = deployment, nodes, request, folder, asked
        self.random = np.random.default_rng(asked.seed)
        self.next_fault, self.events, self.memory = 1, [], []
        self.late = list(range(asked.nodes - asked.late, asked.nodes))
        self.paused: dict[int, float] = {}
        self.away: dict[int, int] = {}  # seat: round after which it is started again
        self.round_ends: list[tuple[int, float]] = []
        self.began = time.monotonic()

    def __call__(self, deployment: Deployment) -> None:
        named = read_json(self.folder / "run.json")
        if named is None:
            return
        done, now = read_trajectory(Path(named["run"]) / TRAJECTORY).rounds_done, time.monotonic()
        if not self.round_ends or self.round_ends[-1][0] != done:
            self.round_ends.append((done, now - self.began))
            self.memory.append({"round": done, "bytes": self._memory()})
        for seat, until in list(self.paused.items()):
            if now > until:
                self._signal(seat, signal.SIGCONT)
                del self.paused[seat]
        for seat, after in list(self.away.items()):
            if done >= after:
                del self.away[seat]
                self._start(seat, done)
        if done >= self.next_fault and done < self.asked.rounds - 2:
            self.next_fault = done + int(self.random.integers(1, 5))
            self._fault(done, named["run"])

    def _fault(self, done: int, run: str) -> None:
        if self.late:
            self._start(self.late.pop(), done)
            return
        kind = str(self.random.choice(KINDS))
        seat = int(self.random.integers(self.asked.nodes))
        if seat in self.away or seat in self.paused or not self.deployment.running(f"node-{seat}"):
            return
        self._note(kind, done, "superlink" if kind == "server" else seat)
        if kind == "kill":
            self.deployment.kill(f"node-{seat}")
            self.away[seat] = done + int(self.random.integers(1, 4))
        elif kind == "pause":
            self._signal(seat, signal.SIGSTOP)
            self.paused[seat] = time.monotonic() + float(self.random.uniform(1.0, 1.5 * self.asked.deadline))
        else:
            self.deployment.kill("superlink")
            self.deployment.start_superlink()
            folder = write_request(self.folder, self.request, runs_folder=self.folder / "runs", resume=run, force=True)
            self.deployment.submit(write_app(folder))

    def _start(self, seat: int, done: int) -> None:
        self._note("start", done, seat)
        self.deployment.start_node(seat, self.nodes[seat])

    def _note(self, what: str, done: int, who: Any) -> None:
        after = round(time.monotonic() - self.began, 1)
        self.events.append({"what": what, "who": who, "rounds_in_log": done, "after_s": after})
        print(self.events[-1], flush=True)

    def _signal(self, seat: int, number: int) -> None:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.deployment.pid(f"node-{seat}"))
            for one in (process, *process.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    one.send_signal(number)

    def _memory(self) -> int:
        """Resident bytes of the SuperLink and all that it started: the server among them."""
        total = 0
        with contextlib.suppress(psutil.Error, KeyError):
            process = psutil.Process(self.deployment.pid("superlink"))
            for one in (process, *process.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    total += one.memory_info().rss
        return total

    def end(self) -> None:
        for seat in list(self.paused):
            self._signal(seat, signal.SIGCONT)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--late", type=int, default=2, help="Nodes that are started only during the run.")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--deadline", type=float, default=30.0)
    parser.add_argument("--out", type=Path, default=ROOT / "artifacts" / "benchmarks" / "soak.json")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="zorba-soak-"))
    model = folder / "tiny"
    tiny_model("opt").save_pretrained(model)
    make_tokenizer().save_pretrained(model)
    settings = TrainSettings(
        rounds=asked.rounds, lr=1e-3, num_perturbations=2, num_seeds=64, batch_size=2, seq_len=32, eval_every=5,
        eval_rows=20, target=None,
    )  # fmt: skip
    config = RunConfig("toy-reviews", str(model), get_task("toy-reviews").label_words, asked.nodes, 1.0, settings)
    first = asked.nodes - asked.late
    server = ServerSettings(min_clients=first, start_timeout=900.0, deadline=asked.deadline, patience=3)
    request = request_config(config, server)
    nodes = [{"blocks": 1 + seat % 3, "model": str(model)} for seat in range(asked.nodes)]
    ports: list[int] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(ended_by_signals())
        deployment = stack.enter_context(Deployment(folder))
        deployment.start_superlink()
        for seat in range(first):
            deployment.start_node(seat, nodes[seat])
        deployment.submit(write_app(write_request(folder, request, runs_folder=folder / "runs", force=True)))
        soak = Soak(deployment, nodes, request, folder, asked)
        stack.callback(soak.end)
        result = await_result(deployment, folder, watch=soak)
        ports = [deployment.port(name) for name in ("superlink", *(f"node-{seat}" for seat in range(asked.nodes)))]
    time.sleep(1.0)
    return report(result, soak, folder, ports, asked)


def report(result: dict[str, Any], soak: Soak, folder: Path, ports: list[int], asked: Any) -> int:
    if result["state"] != "done":
        print(f"the run failed: {result.get('error')}; its folder is {folder}", file=sys.stderr)
        return 1
    run = read_run(result["run"])
    replicas = run.summary["replicas"]
    left = [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if process.pid != os.getpid() and any(str(folder) in word for word in process.info["cmdline"] or ())
    ]
    open_ports = [port for port in ports if _is_open(port)]
    faulty = {event["rounds_in_log"] + 1 for event in soak.events if event["what"] != "start"}
    pairs = list(zip(soak.round_ends, soak.round_ends[1:], strict=False))
    lasted = [(b[0], b[1] - a[1]) for a, b in pairs]
    usual = [seconds for number, seconds in lasted if number not in faulty]
    after_fault = [seconds for number, seconds in lasted if number in faulty]
    log = read_trajectory(run.path / TRAJECTORY)
    counts: dict[str, int] = {}
    for note in log.notes:
        counts[note.what] = counts.get(note.what, 0) + 1
    summary = {
        "nodes": asked.nodes, "late": asked.late, "rounds": run.summary["rounds_done"], "asked": asked.rounds,
        "seed": asked.seed, "deadline_s": asked.deadline, "events": soak.events, "replicas": len(replicas),
        "replicas_equal": sum(client["equal"] for client in replicas), "processes_left": len(left),
        "ports_left": len(open_ports), "seconds": round(soak.round_ends[-1][1], 1),
        "median_seconds_of_a_round": float(np.median(usual)) if usual else None,
        "median_seconds_of_a_round_with_a_fault": float(np.median(after_fault)) if after_fault else None,
        "memory_of_the_server": soak.memory, "log_notes": counts,
        "resumed_after_rounds": run.summary["resumed_after_rounds"], "reports": run.summary["reports"],
        "machine": _machine(),
    }  # fmt: skip
    write_sealed(asked.out, summary)
    kept = summary["rounds"] == asked.rounds and summary["replicas_equal"] == len(replicas) > 0
    clean = not left and not open_ports
    print(
        f"rounds {summary['rounds']}, equal {summary['replicas_equal']} of {len(replicas)}, left {left}, {open_ports}"
    )
    return 0 if kept and clean else 1


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    sys.exit(main())
