"""A flipped bit in a file that carries numbers is noticed, or changes no number; files without one are read."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.damage import call
from zorba_core.allocation import Allocation, allocation_from_file, allocation_to_bytes, write_allocation
from zorba_core.checksums import (
    ChecksumError,
    parse_json,
    read_sealed,
    sealed,
    sha256_of,
    unsealed,
    write_sealed,
)
from zorba_core.data.checked_tables import UNREADABLE, read_table, write_table
from zorba_core.engine.callbacks import RoundRecord
from zorba_core.engine.records import EvaluationEntry, RoundEntry
from zorba_core.errors import InvalidInputError
from zorba_core.files import fingerprint, to_json, write_json, write_text
from zorba_core.runs import list_runs, read_run
from zorba_core.runs.writer import RunWriter
from zorba_core.study.experiments.store import CURVE_SCHEMA, RUN_SCHEMA, frame_of, read_tables, write_tables
from zorba_core.study.ledger.claims import Claim, Ledger, read_ledger, write_ledger
from zorba_core.study.ledger.front_rows import read_timings
from zorba_core.study.ledger.memory_rows import read_measured
from zorba_core.study.verify import verify_folder

ALLOCATION = Allocation(np.array([[1, 0, 1, 1], [1, 1, 0, 0], [0, 1, 1, 0]]))
LEDGER = Ledger(
    {"engine_version": 2},
    tuple(
        Claim(f"row {n}", "memory", "Table II", 2.5 + n, 2.49, "GiB", "reproduced", "zorba vram", ("a.json",))
        for n in range(4)
    ),
)


def noticed_or_unchanged(path: Path, read: Callable[[], Any], random_: random.Random, times: int, *, bits: int) -> int:
    """How many of ``times`` changes of ``bits`` bits ``read`` noticed; fails where one gave other numbers."""
    whole, expected, noticed = path.read_bytes(), read(), 0
    for _ in range(times):
        changed = bytearray(whole)
        for _ in range(bits):
            changed[random_.randrange(len(changed))] ^= 1 << random_.randrange(8)
        path.write_bytes(changed)
        try:
            value = read()
        except InvalidInputError as error:
            noticed += 1
            lines = str(error).count("\n")
        else:
            lines = 0
            assert value == expected, bytes(changed)
        assert lines == 0
    path.write_bytes(whole)
    assert read() == expected
    return noticed


def test_a_sealed_file_without_any_stretch_gives_no_other_value(tmp_path):
    """Also without one that takes the checksum along and leaves valid JSON."""
    path, value = tmp_path / "a.json", {"rounds": 12, "weights_sha256": "0f" * 8}
    write_sealed(path, value)
    text, refused = path.read_text(), 0
    for start, end in itertools.combinations(range(len(text) + 1), 2):
        path.write_text(text[:start] + text[end:])
        try:
            left = read_sealed(path)
        except ChecksumError:
            refused += 1
        except ValueError:
            continue
        else:
            assert left in (value, {}), (start, end)  # {}: nothing is left of it
    assert refused > 100


def test_a_file_that_says_it_is_sealed_and_has_no_checksum_is_refused(tmp_path):
    write_json(tmp_path / "a.json", {"sealed": "by the checksum at the end", "rounds": 12})
    with pytest.raises(ChecksumError, match="remove its fields sealed and checksum if you changed it on purpose"):
        read_sealed(tmp_path / "a.json")


def not_a_file(path: Path, kind: str) -> None:
    """Put something in the place of a file that would be waited for, or be read without an end."""
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
@pytest.mark.parametrize("read", [read_sealed, sha256_of])
def test_what_is_no_file_in_the_place_of_a_sealed_one_is_named_and_not_waited_for(tmp_path, kind, read):
    path = tmp_path / "nodes.json"
    not_a_file(path, kind)
    with pytest.raises(InvalidInputError, match=r"nodes\.json: it is a (folder|device or a pipe) where a file belongs"):
        read(path)


def test_a_sealed_file_that_became_larger_than_any_is_not_read(tmp_path):
    path = tmp_path / "state.json"
    write_sealed(path, {"rounds": 12})
    os.truncate(path, 6 * 2**30)  # sparse: zeros that no disk holds
    with pytest.raises(InvalidInputError, match=r"state\.json: it has more than 67108864 bytes"):
        read_sealed(path)
    write_sealed(path, {"rounds": 12})
    with pytest.raises(InvalidInputError, match="more than 20 bytes"):
        read_sealed(path, most_bytes=20)


@pytest.mark.parametrize("value", [{}, {"rounds": 12}, {"rounds": 12, "loss": [0.1, None]}])
def test_a_file_sealed_at_its_end_alone_reads_as_before(tmp_path, value):
    write_json(tmp_path / "a.json", {**value, "checksum": f"sha256:{fingerprint(value)}"})
    assert read_sealed(tmp_path / "a.json") == value


@pytest.mark.parametrize("bits", [1, 8])
@pytest.mark.parametrize("ending", ["npz", "json", "csv"])
def test_a_flipped_bit_of_an_allocation_gives_no_other_allocation(tmp_path, ending, bits):
    path = tmp_path / f"a.{ending}"
    write_allocation(path, ALLOCATION)
    count = noticed_or_unchanged(
        path, lambda: allocation_from_file(path).A_MN.tolist(), random.Random(bits), 300, bits=bits
    )
    assert count > 150


def test_an_allocation_cut_at_a_row_is_noticed(tmp_path):
    lines = allocation_to_bytes(ALLOCATION, "csv").splitlines(keepends=True)
    (tmp_path / "a.csv").write_bytes(b"".join(lines[:-1]))
    with pytest.raises(InvalidInputError, match="its checksum does not fit"):
        allocation_from_file(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_bytes(b"".join(lines[1:]))  # as written before there were checksums, or by hand
    assert (allocation_from_file(tmp_path / "a.csv").A_MN == ALLOCATION.A_MN).all()
    (tmp_path / "a.json").write_text('{"num_blocks": 2, "blocks_per_client": [[0], [1]]}')
    assert allocation_from_file(tmp_path / "a.json").num_clients == 2


def test_a_flipped_bit_of_the_ledger_gives_no_other_ledger(tmp_path):
    path = tmp_path / "ledger.json"
    write_ledger(LEDGER, path)
    assert noticed_or_unchanged(path, lambda: asdict(read_ledger(path)), random.Random(0), 150, bits=1) > 130
    old = json.loads(path.read_text())
    del old["sealed"], old["checksum"]
    path.write_text(json.dumps(old))
    assert read_ledger(path) == LEDGER


def test_a_flipped_bit_of_an_experiments_tables_gives_no_other_numbers(tmp_path):
    rows = [{name: None for name in RUN_SCHEMA.names} | {"sha256": str(n), "lr": 0.1 * n, "seed": n} for n in range(5)]
    curves = [{"sha256": "0", "round": n, "loss": 1 / (n + 1), "accuracy": 0.5} for n in range(20)]
    write_tables(tmp_path, frame_of(rows, RUN_SCHEMA), frame_of(curves, CURVE_SCHEMA))

    def read() -> list[str]:
        return [repr(table.to_dict("list")) for table in read_tables(tmp_path)]

    for name in ("runs", "curves"):
        path = tmp_path / f"{name}.parquet"
        assert noticed_or_unchanged(path, read, random.Random(1), 150, bits=1) > 75


@pytest.fixture
def run(tmp_path):
    config = {"dataset": "toy-reviews", "model": "opt-mini", "lr": 0.01, "seed": 3}
    writer = RunWriter(tmp_path / "runs", "toy", config, {"torch": "2.13.0"}, ALLOCATION)
    for t, accuracy in enumerate((0.5, 0.625, 0.75)):
        writer.on_round(RoundRecord(t, 0.5 if t else None, 1 - accuracy, accuracy, 1.5 * t, 33 * t, 6 * t, 18 * t))
    writer.on_evaluation(EvaluationEntry(0, 0.7, 0.5, "0" * 64))
    for t in (1, 2):  # as many as the summary says
        scalars_NQ, of_clients_N = np.zeros((4, 1)), np.zeros(4)
        none_N = of_clients_N.astype(np.uint8)
        writer.on_step(
            RoundEntry(t, np.zeros(1, np.uint32), scalars_NQ, none_N, of_clients_N, "a", 0.01, 1e-3, 1.0, 1, 1, 1)
        )
    writer.finish({"stopped_by": "rounds", "rounds_done": 2, "final_accuracy": 0.75, "seconds": 3.0, "lambda": 1.25})
    writer.close()
    return writer.path


@pytest.mark.parametrize(
    "name", ["config.json", "environment.json", "summary.json", "allocation.npz", "metrics.parquet"]
)
def test_a_flipped_bit_of_a_run_is_noticed_or_changes_nothing(run, name):
    def read() -> tuple[str, ...]:
        shown = read_run(run)
        metrics = repr(shown.metrics.to_dict("list"))
        return (
            repr(shown.config),
            repr(shown.environment),
            repr(shown.summary),
            metrics,
            repr(shown.allocation.A_MN.tolist()),
        )

    assert noticed_or_unchanged(run / name, read, random.Random(2), 100, bits=1) > 40


def test_a_run_of_before_there_were_checksums_reads(run):
    summary = json.loads((run / "summary.json").read_text())
    del summary["sealed"], summary["checksum"]
    write_json(run / "summary.json", summary)
    config = read_sealed(run / "config.json")
    write_json(run / "config.json", config)
    assert read_run(run).summary == summary
    assert read_run(run).config == {"method": "zorba", **config}  # and it is the one that the log was written under


@pytest.mark.parametrize("lost", ["trajectory.log", "its first record"])
def test_a_flipped_bit_of_the_config_of_a_run_without_its_log_gives_no_other_config(run, lost):
    log = run / "trajectory.log"
    if lost == "trajectory.log":
        log.unlink()
    else:
        log.write_bytes(b"#" + log.read_bytes()[1:])
    path = run / "config.json"
    assert noticed_or_unchanged(path, lambda: repr(read_run(run).config), random.Random(4), 200, bits=1) > 150


def test_every_artifact_of_the_checkout_is_as_it_was_written(root):
    broken = [finding for finding in verify_folder(root / "artifacts") if finding.state == "broken"]
    assert broken == []


# What code reads of the benchmarks: the ledger, pages, experiments and notebooks.
READ = {
    "benchmarks/allocation.json": read_timings,
    "benchmarks/memory.json": read_measured,
}


@pytest.mark.parametrize("name", READ)
def test_a_flipped_bit_of_a_benchmark_that_code_reads_is_noticed(root, tmp_path, name):
    path = shutil.copy(root / "artifacts" / name, tmp_path)
    assert noticed_or_unchanged(Path(path), lambda: repr(READ[name](Path(path))), random.Random(3), 12, bits=1) > 6


def test_a_stretch_of_zeros_anywhere_in_a_table_is_noticed_also_where_it_ends_the_metadata(tmp_path):
    path = tmp_path / "table.parquet"
    write_table(path, pa.table({"round": list(range(9)), "loss": [n / 7 for n in range(9)]}))
    whole, expected = path.read_bytes(), read_table(path, 100)
    for at in range(len(whole) - 11):
        path.write_bytes(whole[:at] + bytes(11) + whole[at + 11 :])
        try:
            assert read_table(path, 100).equals(expected) or b"zorba_sha256" not in path.read_bytes(), at
        except (InvalidInputError, *UNREADABLE):
            continue


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_not_finite_in_the_place_of_a_null_is_noticed(tmp_path, number):
    """The checksum is of the JSON that is written, which has null for both."""
    path = tmp_path / "a.json"
    write_sealed(path, {"rows": [{"loss": None}]})
    path.write_text(path.read_text().replace("null", number))
    with pytest.raises(ChecksumError):
        read_sealed(path)


@pytest.mark.parametrize("depth", [150, 600, 5_000])
@pytest.mark.parametrize("name", ["summary.json", "config.json", "environment.json"])
def test_a_run_with_deeply_nested_damage_hides_no_other(run, name, depth):
    whole = shutil.copytree(run, run.parent / "whole")
    path = run / name
    path.write_text(path.read_text().replace("{", '{"added": ' + "[" * depth + "]" * depth + ",", 1))
    listed, problems = list_runs(run.parent)
    assert [each.path for each in listed] == [whole]
    assert len(problems) == 1
    left = call("runs", str(run.parent))
    assert left.status == 0
    assert "Traceback" not in left.err


@pytest.mark.parametrize("depth", [150, 600, 5_000])
def test_deeply_nested_files_are_refused(root, tmp_path, depth):
    nested = '{"added": ' + "[" * depth + "]" * depth + ","
    for name, read in (
        ("ledger.json", read_ledger),
        ("benchmarks/memory.json", read_measured),
    ):
        path = tmp_path / Path(name).name
        path.write_text((root / "artifacts" / name).read_text().replace("{", nested, 1))
        with pytest.raises(InvalidInputError):
            read(path)
    write_allocation(tmp_path / "a.json", ALLOCATION)
    (tmp_path / "a.json").write_text((tmp_path / "a.json").read_text().replace("{", nested, 1))
    with pytest.raises(InvalidInputError):
        allocation_from_file(tmp_path / "a.json")


def test_a_file_in_capitals_is_refused(root, tmp_path):
    path = tmp_path / "memory.json"
    path.write_text((root / "artifacts" / "benchmarks" / "memory.json").read_text().upper())
    with pytest.raises(InvalidInputError):
        read_measured(path)


def test_an_archive_behind_another_is_not_read(tmp_path):
    for name, A_MN in (("a", np.eye(3)), ("b", np.ones((3, 3)))):
        write_allocation(tmp_path / f"{name}.npz", Allocation(A_MN))
    (tmp_path / "c.npz").write_bytes((tmp_path / "a.npz").read_bytes() + (tmp_path / "b.npz").read_bytes())
    with pytest.raises(InvalidInputError, match="something stands before the archive"):
        allocation_from_file(tmp_path / "c.npz")


def test_a_checksum_is_compared_without_a_copy_of_what_it_is_of():
    """A list of empty lists takes 14 times its text; a file just below its limit is to be read within 4 GiB."""
    text = to_json(sealed({"lists": [[]] * 200_000}))
    content = parse_json(text)
    tracemalloc.start()
    unsealed(content, text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * len(text)


@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_nothing_is_renamed_over_a_device_or_a_pipe(tmp_path, kind):
    target = tmp_path / "pipe"
    if kind == "pipe":
        os.mkfifo(target)
    else:
        target.symlink_to("/dev/null")
    with pytest.raises(InvalidInputError, match="it is a device or a pipe"):
        write_text(target, "text")
    assert not target.is_file()
