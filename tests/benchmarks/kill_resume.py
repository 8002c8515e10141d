"""Real ``zorba train`` processes killed by SIGKILL at random moments and resumed, until they end. A script, not a test:

    python -m tests.benchmarks.kill_resume --kills 100 --out kills.json

Each chain starts one run, kills it, resumes it, kills that, and so on. Every third kill comes at a moment drawn
uniformly over the seconds of start-up, the others up to two seconds after the log has grown. A chain must end with the
undisturbed run's bits: the sha256 of the weights, and every round of the log but for its seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from zorba_core import cli
from zorba_core.files import write_json
from zorba_core.runs import list_runs, resume, train
from zorba_core.runs.log import LOG

TRAIN = (
    "train --dataset toy-reviews --model opt-mini --clients 3 --rounds 100 --lr 0.01 --batch-size 2 --eval-every 5 "
    "--eval-rows 32 --json"
)


LOADED = (resume, train)  # with torch and transformers, before anything is forked


def rounds_of(folder: Path) -> list[dict[str, Any]]:
    """The log's rounds without what differs between two runs of one config."""
    lines = [json.loads(line) for line in (folder / LOG).read_text("utf-8").splitlines()]
    return [{name: value for name, value in line.items() if name not in ("seconds", "crc")} for line in lines]


def log_bytes(runs_folder: Path) -> int:
    return sum(path.stat().st_size for path in runs_folder.glob(f"*/{LOG}"))


def run(*arguments: str, kill_after: float | None = None, grown: Path | None = None) -> tuple[int, str, str]:
    """Exit status (-9 where it was killed), stdout and stderr of a process that runs a ``zorba`` command.

    It is forked, so that libraries load once for all of them, and killed after so many seconds, counted from when a log
    in the folder ``grown`` has grown.
    """
    before = log_bytes(grown) if grown is not None else 0
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(error.fileno(), 2)
            status: object = 1
            try:
                sys.argv[1:] = arguments
                cli.main()
            except SystemExit as end:
                status = end.code
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(int(status or 0))
        deadline = None if kill_after is None or grown is not None else time.perf_counter() + kill_after
        while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if kill_after is not None and deadline is None and log_bytes(grown) != before:
                deadline = time.perf_counter() + kill_after
            if deadline is not None and time.perf_counter() > deadline:
                os.kill(child, signal.SIGKILL)
                break
            time.sleep(0.002)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = [(file.seek(0), file.read().decode())[1] for file in (out, error)]
    return status, *texts


def chain(runs_folder: Path, start_up: float, rng: np.random.Generator, most: int, pause: float) -> dict[str, Any]:
    """One run, killed at most ``most`` times; where each kill came, and how the run ended."""
    kills: list[str] = []
    while True:
        runs = list_runs(runs_folder).runs if runs_folder.is_dir() else []
        asked = ("resume", str(runs[0].path), "--json") if runs else (*TRAIN.split(), "--runs-folder", str(runs_folder))
        done_before = runs[0].rounds_done if runs else None
        anywhere = len(kills) % 3 == 0
        after = float(rng.uniform(0.0, start_up if anywhere else 2.0)) if len(kills) < most else None
        status, out, error = run(*asked, kill_after=after, grown=None if anywhere else runs_folder)
        if status == 0:
            return {"kills": kills, "folder": json.loads(out)["run"]}
        if status != -signal.SIGKILL:
            finished = list_runs(runs_folder).runs
            if finished and finished[0].finished:  # the kill came after the last byte, and resume says so
                return {"kills": kills, "folder": str(finished[0].path)}
            return {"kills": kills, "folder": "", "problem": error.strip().splitlines()[-1:]}
        now = list_runs(runs_folder).runs if runs_folder.is_dir() else []
        kills.append("before the folder" if not now else "start-up" if now[0].rounds_done == done_before else "rounds")
        time.sleep(pause)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--each", type=int, default=8, help="most kills of one run")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between processes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    rng, places, wrong, chains = np.random.default_rng(asked.seed), Counter(), [], 0
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        status, out, error = run(*TRAIN.split(), "--runs-folder", f"{folder}/whole")
        assert status == 0, error
        whole = json.loads(out)
        start_up = time.perf_counter() - started - whole["seconds"]
        expected = rounds_of(Path(whole["run"]))
        while places.total() < asked.kills:
            most = min(asked.each, asked.kills - places.total())
            ended = chain(Path(folder) / str(chains), start_up, rng, most, asked.pause)
            chains += 1
            places.update(ended["kills"])
            summary = json.loads((Path(ended["folder"]) / "summary.json").read_text("utf-8")) if ended["folder"] else {}
            same = summary.get("weights_sha256") == whole["weights_sha256"]
            if not same or rounds_of(Path(ended["folder"])) != expected:
                wrong.append(ended)
            result = {"kills": places.total(), "where": places, "runs": chains, "wrong": wrong, "start_up": start_up}
            write_json(asked.out, result)
            print(result, flush=True)


if __name__ == "__main__":
    main()
