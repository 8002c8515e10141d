"""Damaged files: refused in one line by name, or read with the numbers that they had."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.damage import call, check_refused, damage_bytes, damage_json, damaged, tree
from tests.runs.test_damaged_runs import FILES, check_listing
from tests.test_damaged_files import check_file
from tests.torture.world import ROUNDS, World
from zorba_core.allocation import allocation_from_file
from zorba_core.errors import InvalidInputError
from zorba_core.runs import CONFIG, TRAJECTORY, read_run
from zorba_core.runs.diagnostics import read_measured
from zorba_core.study.experiments.store import read_tables
from zorba_core.study.ledger.claims import read_ledger


def inputs(world: World, random_: random.Random, folder: Path) -> int:
    """A damaged allocation, fleet, scenario or model."""
    check_file(folder, random_.randrange(2**32))
    return 1


def listing(world: World, random_: random.Random, folder: Path) -> int:
    """A damaged run beside a healthy one."""
    (folder / "runs").mkdir()
    check_listing(world.whole, folder / "runs", random_.randrange(2**32))
    return 1


def going_on(world: World, random_: random.Random, folder: Path) -> int:
    """A damaged run is resumed to the same bits, or refused and left as it is; replayed it has the weights of its
    last round, which its summary knows."""
    run = shutil.copytree(world.whole, folder / "runs" / "run")
    finished = random_.random() < 0.4
    if not finished:
        (run / "summary.json").unlink()
    name = random_.choice([name for name in FILES if (run / name).is_file()])
    whole = (run / name).read_bytes()
    cut = name == TRAJECTORY and random_.random() < 0.5
    (run / name).write_bytes(whole[: random_.randrange(len(whole))] if cut else damaged(random_, name, whole))
    before = tree(run)
    for command in (("replay", str(run), "--save", str(folder / "model")), ("resume", str(run))):
        left = call(*command, "--json")
        if left.status:
            check_refused(left)
            assert tree(run) == before, f"{command[0]} changed what it refused"
        elif command[0] == "resume":
            world.check_run(run)
        else:
            answer = json.loads(left.out)
            assert answer["round"] == ROUNDS or (name == TRAJECTORY and not finished), "replayed a part as the whole"
            assert answer["weights_sha256"] == world.weights_at[answer["round"]], "other weights"
    return 1


def numbers(world: World, random_: random.Random, folder: Path) -> int:
    """A damaged file that carries numbers is noticed when it is read, or has the numbers that it had."""
    name = random_.choice(sorted(_READERS))
    whole, read = (world.folder / name).read_bytes(), _READERS[name]
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    for other in (world.folder / name).parent.glob("*.parquet"):
        shutil.copy(other, path.parent)
    path.write_bytes(whole)
    expected = read(path)
    spoil = damage_json if path.suffix == ".json" and random_.random() < 0.3 else damage_bytes
    path.write_bytes(spoil(random_, whole))
    # The checksum itself is gone, as in files of before; JSON says at its other end that it had one.
    stripped = b"sha256" not in path.read_bytes() and path.suffix != ".json"
    said = ""
    try:
        value = read(path)
    except InvalidInputError as error:
        value, said = expected, str(error)
    assert "\n" not in said
    assert len(said) < 1200
    assert value == expected or stripped, "other numbers without a word"
    return 1


_READERS: Mapping[str, Callable[[Path], Any]] = {
    "allocation.npz": lambda path: allocation_from_file(path).A_MN.tolist(),
    "allocation.json": lambda path: allocation_from_file(path).A_MN.tolist(),
    "allocation.csv": lambda path: allocation_from_file(path).A_MN.tolist(),
    "ledger.json": lambda path: repr(read_ledger(path)),
    "tables/runs.parquet": lambda path: [repr(table.to_dict("list")) for table in read_tables(path.parent)],
    "diagnostics.parquet": lambda path: [repr(vars(row)) for row in read_measured(path, 3, 3)],
    "tables/curves.parquet": lambda path: [repr(table.to_dict("list")) for table in read_tables(path.parent)],
}


def config_alone(world: World, random_: random.Random, folder: Path) -> int:
    """A run that has lost its log, and whose config was damaged: refused by name, or read as it was."""
    run = shutil.copytree(world.whole, folder / "run")
    (run / TRAJECTORY).unlink()
    expected, path = read_run(run).config, run / CONFIG
    path.write_bytes(damaged(random_, CONFIG, path.read_bytes()))
    said = CONFIG
    try:
        config = read_run(run).config
    except InvalidInputError as error:
        config, said = expected, str(error)
    assert config == expected, "another config without a word"
    assert CONFIG in said, "refused, and not by name"
    assert "\n" not in said
    assert len(said) < 1200
    return 1


def own_rows(world: World, random_: random.Random, folder: Path) -> int:
    """Damaged rows of a user's own: read, or refused in one line."""
    name = random_.choice(("rows.csv", "rows.jsonl"))
    (folder / name).write_bytes(damaged(random_, name, (world.folder / name).read_bytes()))
    left = call("task", "check", str(folder / name), "--model", str(world.model), "--seq-len", "48")
    assert left.status in (0, 1, 2)
    assert "Traceback" not in left.err
    if left.status:
        assert left.lines, "refused without a word"
        assert left.lines[-1].startswith("zorba: "), left.err
    return 1


def model_files(world: World, random_: random.Random, folder: Path) -> int:
    """A model folder of which one file is damaged: loaded with the weights it had, or refused in one line."""
    model = shutil.copytree(world.model, folder / "tiny")
    name = random_.choice(sorted(path.name for path in model.iterdir()))
    (model / name).write_bytes(damaged(random_, name, (model / name).read_bytes()))
    before = tree(folder)
    left = call("replay", str(world.whole), "--round", "0", "--model", str(model), "--json")
    if left.status:
        check_refused(left)
    elif name == "model.safetensors":  # its weights have a fingerprint in the run
        assert json.loads(left.out)["round"] == 0
    assert tree(folder) == before
    return 1
