"""A long life: 10,000 rounds of the smallest setting, and a folder of 10,000 runs. Run by hand::

    python -m tests.benchmarks.bench_long [--rounds 10000] [--runs 10000] [--out artifacts/benchmarks/long.json]

Measured over the rounds: resident memory, bytes of the log, processor seconds; then processor seconds of a replay of
the last round and of one before any checkpoint, and of ``zorba runs`` on many folders, the first time and again.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from zorba_core.cli.run_index import indexed_rows

from tests.torture.__main__ import _machine
from tests.torture.world import ALLOCATION, build, remember_divisions
from zorba_core.cli.runs import _row
from zorba_core.engine.callbacks import Callback
from zorba_core.engine.settings import TrainSettings
from zorba_core.files import write_sealed
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
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=ROOT / "artifacts" / "benchmarks" / "long.json")
    asked = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    folder = Path(tempfile.mkdtemp(prefix="zorba-long-"))
    os.environ["ZORBA_CACHE"] = str(folder / "cache")
    try:
        world = build(folder)
        remember_divisions()
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
        many = folder / "many"
        many.mkdir()
        for number in range(asked.runs):
            shutil.copytree(world.whole, many / f"run-{number:05}")
        listings = [processor_seconds(lambda: indexed_rows(many, _row)) for _ in range(3)]
        result = {
            "rounds": watch.seen,
            "checkpoint_round": checkpoint_round(run.path),
            "replay_processor_seconds_to_round": replays,
            "runs_in_folder": asked.runs,
            "listing_processor_seconds": {"first": listings[0], "again": listings[1:]},
            "settings": {"perturbations": 1, "batch_size": 1, "clients": 3, "blocks": 3, "eval_every": 50, "seed": 0},
            "machine": _machine(),
        }
        print(json.dumps(result["listing_processor_seconds"]), flush=True)
        write_sealed(asked.out, result)
    finally:
        os.chdir(ROOT)
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
