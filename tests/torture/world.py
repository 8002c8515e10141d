"""What the attacks are made on: a tiny model, a finished run, and one of every file that the suite reads."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer

from tests.damage import Left, call
from tests.tiny_models import make_tokenizer, tiny_model
from zorba_core import cli
from zorba_core.allocation import Allocation, write_allocation
from zorba_core.runs import TRAJECTORY, environment, read_run, session
from zorba_core.runs import resume as resuming
from zorba_core.runs.diagnostics import DIAGNOSTICS, Measured, write_measured
from zorba_core.runs.streaming.network import BLOCKS
from zorba_core.runs.trajectory import read_trajectory
from zorba_core.study.experiments.store import CURVE_SCHEMA, RUN_SCHEMA, frame_of, write_tables
from zorba_core.study.ledger.claims import Claim, Ledger, write_ledger

ALLOCATION = Allocation(np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1]]))
ROUNDS = 4
METRICS = ["round", "train_loss", "eval_loss", "eval_accuracy", "forward_passes", "scalars_up", "scalars_down"]


@dataclass(frozen=True)
class World:
    """``whole`` is the run that nothing interrupted, ``weights_at`` the fingerprints of its weights before the first
    round and after each."""

    folder: Path
    model: Path
    allocation: Path
    whole: Path
    weights_at: tuple[str, ...] = ()

    @property
    def weights_sha256(self) -> str:
        return self.weights_at[-1]

    def train(self, runs_folder: Path, *more: str, allocates: bool = True) -> Left:
        """The command that made ``whole``; with more options, or for a method that trains every block everywhere."""
        of_zorba = ("--allocation", str(self.allocation), "--perturbations", "2", "--num-seeds", "32")
        return call(
            "train", "--model", str(self.model), *(of_zorba if allocates else ("--clients", "3")),
            "--rounds", str(ROUNDS), "--batch-size", "2", "--seq-len", "48", "--eval-every", "2",
            "--eval-rows", "8", "--participation", "0.7", "--force", "--json", "--runs-folder", str(runs_folder), *more,
        )  # fmt: skip

    def check_run(self, path: Path, as_in: Path | None = None) -> None:
        """A finished run has the bits and the numbers of another (default: the whole one), and left nothing behind."""
        run, whole = read_run(path), read_run(as_in or self.whole)
        assert run.summary["weights_sha256"] == whole.summary["weights_sha256"], "other weights"
        for name in METRICS:
            left, right = run.metrics[name].to_numpy(), whole.metrics[name].to_numpy()
            assert np.array_equal(left, right, equal_nan=left.dtype.kind == "f"), f"other {name}"
        assert read_trajectory(path / TRAJECTORY).rounds_done == ROUNDS
        assert run.summary.get("diagnostics") == whole.summary.get("diagnostics"), "other gradients"
        assert len(run.diagnostics) == len(whole.diagnostics)
        assert run.metrics["seconds"].is_monotonic_increasing
        leftover = [entry.name for entry in path.iterdir() if entry.name.startswith(".") or entry.name == BLOCKS]
        assert not leftover, f"left behind: {leftover}"


def build(folder: Path) -> World:
    """Make the world below ``folder``."""
    torch.set_num_threads(1)
    model = folder / "tiny"
    tiny_model("opt").save_pretrained(model)
    make_tokenizer().save_pretrained(model)
    allocation = folder / "allocation.npz"
    write_allocation(allocation, ALLOCATION)
    world = World(folder, model, allocation, folder)
    left = world.train(folder / "runs")
    assert left.status == 0, left
    answer = json.loads(left.out)
    whole = folder / "whole"
    shutil.move(answer["run"], whole)
    _write_others(folder)
    replayed = [call("replay", str(whole), "--round", str(number), "--json") for number in range(ROUNDS + 1)]
    weights_at = tuple(json.loads(left.out)["weights_sha256"] for left in replayed)
    assert weights_at[-1] == answer["weights_sha256"]
    return World(folder, model, allocation, whole, weights_at)


def _write_others(folder: Path) -> None:
    for ending in ("json", "csv"):
        write_allocation(folder / f"allocation.{ending}", ALLOCATION)
    claims = [
        Claim(f"row {n}", "memory", "Table II", 2.5 + n, 2.49, "GiB", "reproduced", "zorba vram", ("a.json",))
        for n in range(3)
    ]
    write_ledger(Ledger({"engine_version": 2}, tuple(claims)), folder / "ledger.json")
    rows = [{name: None for name in RUN_SCHEMA.names} | {"sha256": str(n), "lr": 0.1 * n} for n in range(4)]
    curves = [{"sha256": "0", "round": n, "loss": 1 / (n + 1), "accuracy": 0.5} for n in range(9)]
    write_tables(folder / "tables", frame_of(rows, RUN_SCHEMA), frame_of(curves, CURVE_SCHEMA))
    product_MNN = np.random.default_rng(0).normal(size=(3, 3, 3)) ** 2
    write_measured(
        folder / DIAGNOSTICS, [Measured.of_products(n, np.ones(3), product_MNN, ALLOCATION.A_MN) for n in (0, 2)]
    )
    (folder / "fleet.csv").write_text("client,vram_gib\na,0.5\nb,0.02\n")
    (folder / "file.json").write_text("{}")
    lines = [f"room {n} was {('bad', 'good')[n % 2]},{('bad', 'good')[n % 2]}" for n in range(40)]
    (folder / "rows.csv").write_text("text,label\n" + "\n".join(lines) + "\n")
    (folder / "rows.jsonl").write_text(
        "".join(json.dumps(dict(zip(("text", "label"), line.split(","), strict=True))) + "\n" for line in lines)
    )
    (folder / "folder").mkdir()


def quicken() -> Callable[[], None]:
    """Make once what takes longer than these runs and is the same for each: the division of the rows, the options of
    the command and the state of the checkout. Returns what puts everything back."""
    divide, git, assemble = session.divide_rows, environment.git_state, cli.build_app
    made: dict[Any, Any] = {}

    def remembered(task: Any, tokenizer: Any, *rest: Any) -> Any:
        with contextlib.suppress(TypeError):  # rows of a user's own are not hashable
            if (task, *rest) not in made:
                made[task, *rest] = divide(task, tokenizer, *rest)
            return made[task, *rest]
        return divide(task, tokenizer, *rest)

    session.divide_rows = resuming.divide_rows = remembered
    state, command = git(), typer.main.get_command(assemble())
    environment.git_state, cli.build_app = lambda: state, lambda: command

    def put_back() -> None:
        session.divide_rows = resuming.divide_rows = divide
        environment.git_state, cli.build_app = git, assemble

    return put_back


def small_folder(world: World, name: str) -> Path:
    """An empty folder for one attempt, which is the working directory then."""
    folder = world.folder / "attempts" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.chdir(folder)
    return folder
