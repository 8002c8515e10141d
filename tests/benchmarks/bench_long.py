"""A long life: 10,000 rounds of the smallest setting, and a folder of 10,000 runs. Run by hand::

    python -m tests.benchmarks.bench_long [--part rounds] [--part runs] [--out artifacts/benchmarks/long.json]

Measured over the rounds: resident memory, bytes of the log, processor seconds; then processor seconds of a replay of
the last round and of one before any checkpoint; seconds of ``zorba runs`` and of the Runs page on many folders, the
first time and again.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.torture.__main__ import _machine
from tests.torture.world import ALLOCATION, World, build, quicken
from zorba_core.checksums import read_sealed, write_sealed
from zorba_core.engine.callbacks import Callback
from zorba_core.engine.settings import TrainSettings
from zorba_core.runs import TRAJECTORY
from zorba_core.runs.checkpoint import checkpoint_round
from zorba_core.runs.resume import replay
from zorba_core.runs.session import fine_tune

ROOT = Path(__file__).resolve().parents[2]


class Watch(Callback):
    """Memory, log and time at ten moments of the run."""

    def __init__(self, every: int) -> None:
        self._every, self.seen, self._path = every, [], Path()

    def on_start(self, folder: Path) -> None:
        self._path = folder

    def on_step(self, entry: Any) -> None:
        if entry.round % self._every == 0 or entry.round == self._every // 10:
            used = resource.getrusage(resource.RUSAGE_SELF)
            self.seen.append(
                {
                    "round": entry.round,
                    "resident_bytes": int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
                    "log_bytes": (self._path / TRAJECTORY).stat().st_size,
                    "processor_seconds": used.ru_utime + used.ru_stime,
                }
            )


def processor_seconds(work: Any) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=PARTS, action="append", default=[], help="Default: both; the other stays.")
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=ROOT / "artifacts" / "benchmarks" / "long.json")
    asked = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    folder = Path(tempfile.mkdtemp(prefix="zorba-long-"))
    os.environ["ZORBA_CACHE"] = str(folder / "cache")
    result = read_sealed(asked.out) if asked.out.is_file() else {}
    try:
        world = build(folder)
        for part in asked.part or PARTS:
            result |= PARTS[part](world, folder, asked) | {"machine": _machine()}
            write_sealed(asked.out, result)
    finally:
        os.chdir(ROOT)
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def many_rounds(world: World, folder: Path, asked: Any) -> dict[str, Any]:
    quicken()
    settings = TrainSettings(
        rounds=asked.rounds, lr=1e-4, num_perturbations=1, num_seeds=8, batch_size=1, seq_len=16, eval_every=50,
        eval_rows=4, target=None,
    )  # fmt: skip
    watch = Watch(asked.rounds // 10)
    run = fine_tune(
        ALLOCATION, model=world.model, settings=settings, runs_folder=folder / "long", callbacks=[watch], force=True
    )
    before = max(1, min(999, asked.rounds - 1))
    replays = {
        str(round_index): processor_seconds(lambda at=round_index: replay(run.path, round_index=at))
        for round_index in (0, before, asked.rounds)
    }
    print(json.dumps({"seen": watch.seen, "replays": replays}), flush=True)
    return {
        "rounds": watch.seen,
        "checkpoint_round": checkpoint_round(run.path),
        "replay_processor_seconds_to_round": replays,
        "settings": {"perturbations": 1, "batch_size": 1, "clients": 3, "blocks": 3, "eval_every": 50, "seed": 0},
    }


def many_runs(world: World, folder: Path, asked: Any) -> dict[str, Any]:
    """Seconds of the command, a process of its own, and of the Runs page, without an index and with it."""
    many = folder / "many"
    many.mkdir()
    for number in range(asked.runs):
        shutil.copytree(world.whole, many / f"run-{number:05}")
    command = [str(Path(sys.executable).parent / "zorba"), "runs", str(many)]
    listed = [_seconds_of(command) for _ in range(3)]
    as_json = [_seconds_of([*command, "--json"]) for _ in range(2)]
    pages = [_seconds_of([sys.executable, "-c", _PAGE, str(many), str(ROOT)]) for _ in range(3)]
    result = {
        "runs_in_folder": asked.runs,
        "runs_are": "copies of one run of 4 rounds",
        "zorba_runs": {"first": listed[0], "again": listed[1:], "json_again": as_json},
        "runs_page": {"first": pages[0], "again": pages[1:]},
    }
    print(json.dumps(result), flush=True)
    return {"many_runs": result}


# Seconds of the page's first run and of a second one in the same session, without what `make app` loads before any
# page is asked for: the pages' modules.
_PAGE = """
import importlib, json, os, pkgutil, sys, time
os.environ["ZORBA_RUNS"] = sys.argv[1]
os.chdir(sys.argv[2])
from streamlit.testing.v1 import AppTest
from app import screens
for module in pkgutil.walk_packages(screens.__path__, "app.screens."):
    if len(set(module.name.split(".")[-2:])) > 1:  # else it is the page itself, which only Streamlit runs
        importlib.import_module(module.name)
app = AppTest.from_file(os.path.abspath("app/main.py"), default_timeout=600).run()
seconds = {}
for name in ("page", "page again"):
    began, spent = time.monotonic(), time.process_time()
    app.switch_page("screens/runs/runs.py").run()
    assert not app.exception, app.exception
    assert len(app.dataframe[0].value) > 1
    seconds[name] = {"seconds": time.monotonic() - began, "processor_seconds": time.process_time() - spent}
print(json.dumps(seconds))
"""


def _seconds_of(command: list[str]) -> dict[str, Any]:
    """Of the whole process; and what its last line says where that is JSON of its own measurement."""
    began, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    whole = {"seconds": round(time.monotonic() - began, 2), "processor_seconds": round(spent, 2)}
    last = done.stdout.splitlines()[-1]
    return whole | (json.loads(last) if last.startswith('{"page"') else {})


PARTS = {"rounds": many_rounds, "runs": many_runs}


if __name__ == "__main__":
    sys.exit(main())
