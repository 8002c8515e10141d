"""A federation of real SuperNodes under seeded faults, for as many rounds as asked. Run by hand::

    python -m tests.torture.soak [--nodes 8] [--rounds 200] [--seed 0] [--out artifacts/benchmarks/soak.json]
    python -m tests.torture.soak --simulated [--nodes 24]       # clients in one process (tests.torture.soak_simulated)

Every few rounds something happens to somebody: a node is killed and started again, with another capacity or the same,
is paused (SIGSTOP), has its link cut or slowed for a while, loses the process that holds its replica, or is started
late for the first time; the server's process is killed, or the SuperLink with it, and both are started on the run's
folder. Checked at the end: the run has all its rounds; every replica that is left has the server's weights; no process,
port or temporary file of the deployment is left. Reported: the faults and the seconds that each cost, memory and open
files of the server's processes by time, and what the log says of joins and leaves. The file is also written while the
soak runs. Exit status 1 where a promise was broken.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from tests.federation.cuttable import Cable
from tests.tiny_models import make_tokenizer, tiny_model
from tests.torture.__main__ import _machine
from zorba_core.checksums import read_sealed, write_sealed
from zorba_core.data.tasks import get_task
from zorba_core.engine.settings import TrainSettings
from zorba_core.federation.config import RunConfig, ServerSettings
from zorba_core.federation.flower.app_folder import write_app, write_request
from zorba_core.federation.flower.deployment import Deployment, ended_by_signals, read_json
from zorba_core.federation.flower.loopback import await_result
from zorba_core.federation.flower.reaper import processes_under
from zorba_core.federation.request import request_config
from zorba_core.runs import TRAJECTORY, read_run
from zorba_core.runs.trajectory import read_trajectory

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("kill", "kill", "pause", "pause", "cut", "slow", "capacity", "replica's process", "server", "superlink")
_SAVE_SECONDS = 30.0


class Soak:
    """Watches the run and does what the seed says, when a round is in the log."""

    def __init__(self, deployment: Deployment, nodes: list[dict], request: dict, folder: Path, asked: Any) -> None:
        self.deployment, self.nodes, self.request, self.folder, self.asked = deployment, nodes, request, folder, asked
        self.random = np.random.default_rng(asked.seed)
        self.next_fault, self.events, self.levels = 2, [], []
        self.late = list(range(asked.nodes - asked.late, asked.nodes))
        self.cables = [Cable(deployment.port("superlink")) for _ in nodes]
        self.until: dict[int, tuple[str, float]] = {}  # seat: what is done to it, and when it ends
        self.away: dict[int, int] = {}  # seat: round after which it is started again
        self.round_ends: list[tuple[int, float]] = []
        self.began = self.saved = time.monotonic()

    def start_node(self, seat: int) -> None:
        self.deployment.start_node(seat, self.nodes[seat], f"127.0.0.1:{self.cables[seat].port}")

    def __call__(self, deployment: Deployment) -> None:
        named = read_json(self.folder / "run.json")
        if named is None:
            return
        done, now = read_trajectory(Path(named["run"]) / TRAJECTORY).rounds_done, time.monotonic()
        if not self.round_ends or self.round_ends[-1][0] != done:
            self.round_ends.append((done, now - self.began))
            self.levels.append({"round": done, **self._level()})
        for seat, (what, ends) in list(self.until.items()):
            if now > ends:
                del self.until[seat]
                self._undo(seat, what)
        for seat, after in list(self.away.items()):
            if done >= after:
                del self.away[seat]
                self._note("start", done, seat)
                self.start_node(seat)
        if done >= self.next_fault and done < self.asked.rounds - 3:
            self.next_fault = done + int(self.random.integers(2, 6))
            self._fault(done, named["run"])
        if now - self.saved > _SAVE_SECONDS:
            self.saved = now
            save(self.asked, {**self.describe(), "completed": False})

    def _fault(self, done: int, run: str) -> None:
        if self.late:
            self._note("first start", done, self.late[-1])
            self.start_node(self.late.pop())
            return
        kind, seat = str(self.random.choice(KINDS)), int(self.random.integers(self.asked.nodes))
        seconds = float(self.random.uniform(1.0, 1.2 * self.asked.deadline))
        back, blocks = done + int(self.random.integers(1, 4)), int(self.random.integers(1, 4))
        if kind in ("server", "superlink"):
            self._note(kind, done, kind)
            self._kill_server(kind, run)
            return
        if seat in self.away or seat in self.until or not self.deployment.running(f"node-{seat}"):
            return
        self._note(kind, done, seat)
        if kind in ("kill", "capacity"):
            self.deployment.kill(f"node-{seat}")
            self.away[seat] = back if kind == "kill" else done
            self.nodes[seat] |= {"blocks": blocks} if kind == "capacity" else {}
        elif kind == "replica's process":
            for process in self._residents(seat):
                with contextlib.suppress(psutil.Error):
                    process.kill()
        else:
            self.until[seat] = kind, time.monotonic() + seconds
            if kind == "pause":
                self._signal(seat, signal.SIGSTOP)
            elif kind == "cut":
                self.cables[seat].cut()
            else:
                self.cables[seat].delay = 0.3

    def _undo(self, seat: int, what: str) -> None:
        if what == "pause":
            self._signal(seat, signal.SIGCONT)
        elif what == "cut":
            self.cables[seat].restore()
        else:
            self.cables[seat].delay = 0.0

    def _kill_server(self, kind: str, run: str) -> None:
        """Kill the server's process, or the SuperLink with all that it runs, and start the run's folder again."""
        if kind == "superlink":
            self.deployment.kill("superlink")
            self.deployment.start_superlink()
        else:
            for process in self._under("superlink"):
                with contextlib.suppress(psutil.Error):
                    if any("serverapp" in word for word in process.cmdline()):
                        process.kill()
        (self.folder / "result.json").unlink(missing_ok=True)
        folder = write_request(self.folder, self.request, runs_folder=self.folder / "runs", resume=run, force=True)
        self.deployment.submit(write_app(folder))

    def _note(self, what: str, done: int, who: Any) -> None:
        after = round(time.monotonic() - self.began, 1)
        self.events.append({"what": what, "who": who, "rounds_in_log": done, "after_s": after})
        print(self.events[-1], flush=True)

    def _under(self, name: str) -> list[psutil.Process]:
        with contextlib.suppress(psutil.Error, KeyError):
            process = psutil.Process(self.deployment.pid(name))
            return [process, *process.children(recursive=True)]
        return []

    def _residents(self, seat: int) -> list[psutil.Process]:
        """The processes that hold a seat's replica: children of nobody, named by its folder."""
        place = f"{self.folder / f'node-{seat}'}{os.sep}"
        there = []
        for pid in processes_under(str(self.folder.resolve() / "flwr-home")):
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                if any("resident" in word for word in process.cmdline()) and any(
                    place in word for word in (*process.cmdline(), f"{process.cwd()}{os.sep}")
                ):
                    there.append(process)
        return there

    def _signal(self, seat: int, number: int) -> None:
        for process in (*self._under(f"node-{seat}"), *self._residents(seat)):
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)

    def _level(self) -> dict[str, int]:
        """Resident bytes and open files of the SuperLink and all that it started: the server among them."""
        total = files = 0
        for process in self._under("superlink"):
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
                files += process.num_fds()
        return {"bytes": total, "open_files": files}

    def end(self) -> None:
        for seat, (what, _) in list(self.until.items()):
            self._undo(seat, what)
        self.until.clear()

    def describe(self) -> dict[str, Any]:
        lasted = {b[0]: b[1] - a[1] for a, b in zip(self.round_ends, self.round_ends[1:], strict=False)}
        faults = [event for event in self.events if "start" not in event["what"]]
        touched = {event["rounds_in_log"] + more for event in self.events for more in (1, 2)}
        usual = [seconds for number, seconds in lasted.items() if number not in touched]
        median = float(np.median(usual)) if usual else None
        lost: dict[str, list[float]] = {}
        for event in faults:
            of_it = [lasted[number] for more in (1, 2) if (number := event["rounds_in_log"] + more) in lasted]
            if median is not None and of_it:
                lost.setdefault(event["what"], []).append(round(max(0.0, sum(of_it) - len(of_it) * median), 1))
        return {
            "nodes": self.asked.nodes, "late": self.asked.late, "asked": self.asked.rounds, "seed": self.asked.seed,
            "deadline_s": self.asked.deadline, "rounds": self.round_ends[-1][0] if self.round_ends else 0,
            "seconds": round(self.round_ends[-1][1], 1) if self.round_ends else 0.0, "faults": len(faults),
            "events": self.events, "median_seconds_of_a_round": median, "seconds_lost_by_fault": lost,
            "server": self.levels[:: max(1, len(self.levels) // 40)], "machine": _machine(),
        }  # fmt: skip


def save(asked: Any, section: dict[str, Any]) -> None:
    """Put the section into the file, beside the other."""
    with contextlib.suppress(OSError, ValueError):
        before = read_sealed(asked.out)
        write_sealed(asked.out, {**before, asked.section: section})
        return
    write_sealed(asked.out, {asked.section: section})


def ask() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulated", action="store_true", help="Clients in one process.")
    parser.add_argument("--nodes", type=int, default=None, help="Default: 8, or 24 simulated ones.")
    parser.add_argument("--late", type=int, default=2, help="Nodes that are started only during the run.")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--deadline", type=float, default=30.0)
    parser.add_argument("--out", type=Path, default=ROOT / "artifacts" / "benchmarks" / "soak.json")
    asked = parser.parse_args()
    asked.nodes = asked.nodes or (24 if asked.simulated else 8)
    asked.section = "simulated" if asked.simulated else "supernodes"
    return asked


def config_of(model: Path, asked: Any) -> RunConfig:
    settings = TrainSettings(
        rounds=asked.rounds, lr=1e-3, num_perturbations=2, num_seeds=64, batch_size=2, seq_len=32, eval_every=5,
        eval_rows=20, target=None,
    )  # fmt: skip
    return RunConfig("toy-reviews", str(model), get_task("toy-reviews").label_words, asked.nodes, 1.0, settings)


def main() -> int:
    asked = ask()
    folder = Path(tempfile.mkdtemp(prefix="zorba-soak-"))
    model = folder / "tiny"
    tiny_model("opt").save_pretrained(model)
    make_tokenizer().save_pretrained(model)
    if asked.simulated:
        from tests.torture.soak_simulated import soak

        try:
            return soak(asked, folder, config_of(model, asked))
        finally:
            shutil.rmtree(folder)
    first = asked.nodes - asked.late
    server = ServerSettings(min_clients=first, start_timeout=900.0, deadline=asked.deadline, patience=3)
    request = request_config(config_of(model, asked), server)
    nodes = [{"blocks": 1 + seat % 3, "model": str(model)} for seat in range(asked.nodes)]
    (folder / "tmp").mkdir()
    os.environ["TMPDIR"] = str(folder / "tmp")  # of all that is started: what is left there is seen
    with contextlib.ExitStack() as stack:
        stack.enter_context(ended_by_signals())
        deployment = stack.enter_context(Deployment(folder))
        deployment.start_superlink()
        soak_ = Soak(deployment, nodes, request, folder, asked)
        for seat in range(first):
            soak_.start_node(seat)
        deployment.submit(write_app(write_request(folder, request, runs_folder=folder / "runs", force=True)))
        stack.callback(soak_.end)
        result = await_result(deployment, folder, watch=soak_)
        ports = [deployment.port(name) for name in ("superlink", *(f"node-{seat}" for seat in range(asked.nodes)))]
    time.sleep(2.0)
    status = report(result, soak_, folder, ports, sorted(os.listdir(folder / "tmp")))
    if not status:
        shutil.rmtree(folder)
    return status


def report(result: dict[str, Any], soak: Soak, folder: Path, ports: list[int], temporary: list[str]) -> int:
    if result["state"] != "done":
        save(soak.asked, {**soak.describe(), "completed": False, "error": result.get("error")})
        print(f"the run failed: {result.get('error')}; its folder is {folder}", file=sys.stderr)
        return 1
    run = read_run(result["run"])
    replicas = run.summary["replicas"]
    left = processes_under(str(folder.resolve() / "flwr-home"))
    open_ports = [port for port in ports if _is_open(port)]
    counts: dict[str, int] = {}
    for note in read_trajectory(run.path / TRAJECTORY).notes:
        counts[note.what] = counts.get(note.what, 0) + 1
    half_written = [path.name for path in run.path.iterdir() if path.name.startswith(".")]
    summary = {
        **soak.describe(), "rounds": run.summary["rounds_done"], "replicas": len(replicas),
        "replicas_equal": sum(client["equal"] for client in replicas), "processes_left": len(left),
        "ports_left": len(open_ports), "half_written_files_left": half_written,
        "temporary_files_left": temporary,
        "log_notes": counts, "resumed_after_rounds": run.summary["resumed_after_rounds"],
        "reports": run.summary["reports"],
    }  # fmt: skip
    kept = summary["rounds"] == soak.asked.rounds and summary["replicas_equal"] == len(replicas) > 0
    clean = not (left or open_ports or half_written or temporary)
    save(soak.asked, {**summary, "completed": kept and clean})
    print(
        f"rounds {summary['rounds']}, equal {summary['replicas_equal']} of {len(replicas)}, left {left}, {open_ports}, "
        f"{half_written}, {summary['temporary_files_left']}; lost seconds {summary['seconds_lost_by_fault']}"
    )
    return 0 if kept and clean else 1


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    sys.exit(main())
