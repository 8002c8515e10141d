"""Every option of every command with values that nobody means: served, or refused in one line with nothing written."""

from __future__ import annotations

import functools
import os
import random
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from tests.damage import Left, call, check_refused, tree
from zorba_core.cli import build_app

pytestmark = pytest.mark.slow

VALUES = (
    "0", "-0", "-1", "1", "1e400", "-1e400", "nan", "inf", "1e-320", str(10**9), str(2**63), str(10**30), "9" * 400,
    "9" * 5000, "", " ", ",", "é\udcff", "\u0661", "FOLDER", "FILE", "FILE/below", "a" * 300, "/dev/null/x",
    "/proc/none/x.json",
)  # fmt: skip
# Options that serve as the rest of a small request.
SMALL = {
    "allocate": ["--budgets", "3,2,2", "--blocks", "3"],
    "allocate a model": ["--model", "opt-125m", "--clients", "5", "--time-limit", "1"],
    "pareto": ["--clients", "5", "--epsilons", "5"],
    "pareto by total": ["--clients", "5", "--epsilons", "3", "--by", "total"],
    "scenario": ["--budgets", "3,2,2", "--blocks", "3", "--total", "5", "--target-lambda", "2", "--time-limit", "1"],
    "vram": ["--total-blocks", "200"],
    "train": [
        "--model", "MODEL", "--runs-folder", "new", "--batch-size", "2", "--perturbations", "2", "--num-seeds", "8",
        "--eval-rows", "4", "--rounds", "1", "--clients", "3", "--force", "--seq-len", "48",
    ],
    "train the other method": [
        "--model", "MODEL", "--runs-folder", "new", "--batch-size", "2", "--method", "decomfl", "--num-seeds", "8",
        "--eval-rows", "4", "--rounds", "1", "--clients", "3", "--force", "--seq-len", "48",
    ],
    "tune": ["--model", "MODEL", "--clients", "3", "--first-rounds", "1", "--lrs", "0.01", "--batch-size", "2"],
    "task check": ["ROWS", "--model", "MODEL", "--seq-len", "48"],
    "predict": ["RUNS/whole", "--text", "the room was clean"],
    "evaluate": ["RUNS/whole"],
    "export": ["RUNS/whole", "--to", "new"],
    "runs": ["RUNS"],
    "resume": ["RUNS/whole"],
    "replay": ["RUNS/whole"],
    "doctor": [],
    "make-base": ["--out", "FILE", "--profile", "tiny"],
    "bench": ["--model", "no-such/model"],
    "experiment": ["cases", "--list", "--root", "new"],
    "report": ["--checkout", "FOLDER", "--out", "new.json"],
    "federation up": ["--app-only", "--folder", "new", "--model", "MODEL", "--dataset", "toy-reviews"],
}  # fmt: skip


@functools.cache
def commands() -> dict[str, click.Command]:
    root = typer.main.get_command(build_app())
    named: dict[str, click.Command] = {}
    for name, command in root.commands.items():
        named |= {f"{name} {below}": of for below, of in getattr(command, "commands", {}).items()} or {name: command}
    return named


@functools.cache
def cases() -> list[tuple[str, str, str]]:
    """(key of SMALL, option, value)."""
    every = []
    for key in SMALL:
        command = next(of for name, of in commands().items() if key == name or key.startswith(f"{name} "))
        for parameter in command.params:
            if getattr(parameter, "is_flag", False) or parameter.name == "help":
                continue
            option = parameter.opts[0] if isinstance(parameter, click.Option) else ""
            every += [(key, option, value) for value in VALUES]
    return every


def request(key: str, option: str, value: str, places: dict[str, str]) -> list[str]:
    def put(word: str) -> str:
        for name, place in places.items():
            word = word.replace(name, place) if word.startswith(name) else word
        return word

    small = SMALL[key]
    if option in small:
        at = small.index(option)
        small = [*small[:at], *small[at + 2 :]]
    elif not option:
        small = [word for word in small if word.startswith("--") or small[max(0, small.index(word) - 1)] == "--root"]
    name = next(name for name in commands() if key == name or key.startswith(f"{name} "))
    return [*name.split(), *map(put, small), *([f"{option}={put(value)}"] if option else ["--", put(value)])]


def check_option(key: str, option: str, value: str, folder: Path, places: dict[str, str]) -> Left:
    os.chdir(folder)
    before = tree(folder)
    left = call(*request(key, option, value, places))
    assert left.status in (0, 1, 2), left
    assert "Traceback" not in left.err
    assert "RuntimeWarning" not in left.err, left.err
    if left.status == 1 and key.startswith("train"):  # it began: the run folder keeps what was done
        assert left.lines[-1].startswith("zorba: round "), left.err
    elif left.status and key == "task check":  # what was inferred of the rows comes before
        assert left.lines[-1].startswith("zorba: "), left.err
        assert tree(folder) == before
    elif left.status and not (key == "doctor" and left.out):
        check_refused(left)
        assert tree(folder) == before
    return left


def test_every_command_is_tried():
    assert {name for name in commands()} == {name for name in commands() for key in SMALL if key == name}


def places_in(folder: Path, model: Path, run: Path) -> dict[str, Any]:
    """What the words of SMALL stand for."""
    runs = folder / "runs"
    runs.mkdir()
    (runs / "whole").symlink_to(run)
    (folder / "file.json").write_text("{}")
    (folder / "fleet.csv").write_text("client,vram_gib\na,0.5\nb,0.02\n")
    (folder / "rows.csv").write_text("text,label\n" + "".join(f"room {n} was {n % 2},{n % 2}\n" for n in range(40)))
    (folder / "folder").mkdir()
    return {
        "MODEL": str(model), "RUNS": str(runs), "FILE": str(folder / "file.json"), "FOLDER": str(folder / "folder"),
        "FLEET": str(folder / "fleet.csv"), "ROWS": str(folder / "rows.csv"),
    }  # fmt: skip


@pytest.mark.parametrize("key", SMALL)
def test_extreme_values_are_served_or_refused_in_one_line(key, tiny_opt_folder, whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    places = places_in(tmp_path, tiny_opt_folder, whole.path)
    (tmp_path / "work").mkdir()
    of_command = [case for case in cases() if case[0] == key and (case[0], case[1]) != ("make-base", "--out")]
    for case in random.Random(0).sample(of_command, min(12, len(of_command))):
        check_option(*case, tmp_path / "work", places)
