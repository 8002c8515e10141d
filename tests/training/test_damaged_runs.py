"""A damaged run folder: the others are listed, it is named in one line, and nobody writes into it."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from tests.damage import call, check_refused, damaged, tree
from zorba_core.comparison import folder_records
from zorba_core.runs import Run

FILES = ("allocation.npz", "config.json", "environment.json", "metrics.parquet", "summary.json", "trajectory.log")


def damage_one(random_: random.Random, folder: Path) -> str:
    """Damage one file of a run, or take it away; returns its name."""
    name = random_.choice([name for name in FILES if (folder / name).is_file()])
    path = folder / name
    if random_.random() < 0.05:
        path.unlink()
        if random_.random() < 0.5:
            path.mkdir()
    else:
        path.write_bytes(damaged(random_, name, path.read_bytes()))
    return name


def check_listing(whole: Path, folder: Path, seed: int) -> None:
    random_ = random.Random(seed)
    shutil.copytree(whole, folder / "healthy")
    shutil.copytree(whole, folder / "damaged")
    damage_one(random_, folder / "damaged")
    before = tree(folder)
    left = call("runs", str(folder), "--json")
    assert left.status == 0, left.err
    result = json.loads(left.out)
    names = {row["run"] for row in result["runs"]}
    assert "healthy" in names
    assert len(result["problems"]) == len(left.lines) == 2 - len(names), left.err
    assert all("damaged" in line for line in left.lines)
    assert call("runs", str(folder)).status == 0
    assert call("runs", str(folder), "--only", "healthy").status == 0
    records = folder_records(folder).records  # as the Runs page has them
    assert {record.name for record in records} == names
    for record in records:
        assert record.outcome
        assert record.settings
        assert record.small_curve
    assert tree(folder) == before


def check_going_on(whole: Path, folder: Path, seed: int) -> None:
    random_ = random.Random(seed)
    shutil.copytree(whole, folder / "run")
    finished = random_.random() < 0.3
    if not finished:
        (folder / "run" / "summary.json").unlink()
    name = damage_one(random_, folder / "run") if finished or random_.random() else ""
    before = tree(folder)
    replayed = call("replay", str(folder / "run"), "--json", "--save", str(folder / "model"))
    if replayed.status:
        check_refused(replayed)
        assert tree(folder) == before, name
    else:
        shutil.rmtree(folder / "model")
    resumed = call("resume", str(folder / "run"), "--json")
    if resumed.status:
        check_refused(resumed)
        assert tree(folder) == before, name
    else:
        assert json.loads(resumed.out)["rounds_done"] == 9
