"""rounds.jsonl: every bit comes back, damage is named, and one process writes at a time."""

from __future__ import annotations

import dataclasses
import json
import resource
import subprocess
import sys

import numpy as np
import pytest

from zorba_core.engine.round import Round
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.runs.log import CONFIG, LOG, Log, read_log

ROUNDS = 6


def round_of(t: int) -> Round:
    generator = np.random.default_rng(t)
    return Round(
        round=t,
        lr=0.1 + t * 1e-17,
        seeds_Q=generator.integers(2**32, size=2, dtype=np.uint32),
        rho_NQ=generator.normal(size=(3, 2)),
        status_N=np.array([0, 1, 0], np.uint8),
        loss_N=generator.random(3),
        rho_bar_MQ=np.array([[-0.0, 5e-324], [1 / 3, 1e300]]),
        method_state={"speed_M": generator.random(2), "rounds": np.array(float(t))},
        forward_passes=9,
        scalars_up=4,
        seconds=1.5,
        **({"eval_loss": 0.6, "eval_accuracy": 0.0, "weights_sha256": "3" * 64} if t % 3 == 0 else {}),
        events=({"what": "left", "seat": 1},) if t == 2 else (),
    )


@pytest.fixture
def folder(tmp_path):
    """The folder of a run of six rounds."""
    (tmp_path / CONFIG).write_text('{"seed": 0}')
    with Log(tmp_path) as log:
        for t in range(ROUNDS + 1):
            log.append(round_of(t))
    return tmp_path


def test_every_bit_comes_back(folder):
    for t, read in enumerate(read_log(folder).rounds):
        made = round_of(t)
        for field in dataclasses.fields(Round):
            was, now = getattr(made, field.name), getattr(read, field.name)
            if isinstance(was, np.ndarray):
                assert (was.dtype, was.shape, was.tobytes()) == (now.dtype, now.shape, now.tobytes())
            elif field.name == "method_state":
                assert {name: value.tobytes() for name, value in was.items()} == {
                    name: value.tobytes() for name, value in now.items()
                }
            else:
                assert was == now


def test_each_line_is_json_that_any_program_reads(folder):
    lines = [json.loads(line) for line in (folder / LOG).read_text().splitlines()]
    assert [line["round"] for line in lines] == list(range(ROUNDS + 1))
    assert np.shape(lines[3]["rho_NQ"]) == (3, 2)


def test_a_log_cut_at_any_byte_keeps_the_whole_lines_before_it(folder):
    whole = (folder / LOG).read_bytes()
    ends = np.cumsum([len(line) for line in whole.splitlines(keepends=True)])
    for cut in range(0, len(whole), 7):
        (folder / LOG).write_bytes(whole[:cut])
        content = read_log(folder)
        assert len(content.rounds) == (ends <= cut).sum()
        assert content.torn_bytes == cut - max([0, *ends[ends <= cut]])


def test_a_changed_byte_before_the_last_line_is_named_with_its_place(folder):
    whole = (folder / LOG).read_bytes()
    starts = np.cumsum([0, *(len(line) for line in whole.splitlines(keepends=True))])
    generator = np.random.default_rng(0)
    for position in generator.choice(starts[-2], size=60, replace=False):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(generator.integers(8))
        (folder / LOG).write_bytes(damaged)
        line = int(np.searchsorted(starts, position, side="right"))
        says = rf"line {line} \(byte {starts[line - 1]}\) is damaged" if line > 1 else "its first line does not match"
        with pytest.raises(InvalidInputError, match=says):
            read_log(folder)


def test_a_line_taken_out_or_moved_is_noticed(folder):
    lines = (folder / LOG).read_bytes().splitlines(keepends=True)
    for changed in ([*lines[:3], *lines[4:]], [*lines[:3], lines[4], lines[3], *lines[5:]]):
        (folder / LOG).write_bytes(b"".join(changed))
        with pytest.raises(InvalidInputError, match=r"line 4 .*damaged"):
            read_log(folder)


def test_a_log_belongs_to_its_config(folder):
    (folder / CONFIG).write_text('{"seed": 1}')
    with pytest.raises(InvalidInputError, match=r"first line does not match config.json: one of the two was changed"):
        read_log(folder)


def test_writing_continues_behind_the_whole_lines(folder):
    (folder / LOG).write_bytes((folder / LOG).read_bytes()[:-5])
    with Log(folder) as log:
        assert (len(log.rounds), log.torn_bytes > 0) == (ROUNDS, True)
        log.append(round_of(ROUNDS))
        log.cut_back(3)
        log.append(round_of(4))
    content = read_log(folder)
    assert ([done.round for done in content.rounds], content.torn_bytes) == ([0, 1, 2, 3, 4], 0)


def test_one_process_writes_at_a_time_and_its_death_frees_the_log(folder):
    script = f"""
import time
from zorba_core.runs.log import Log
log = Log({str(folder)!r})
print("locked", flush=True)
time.sleep(60)
"""
    holder = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(InvalidInputError, match="another process is writing this run"):
            Log(folder)
        assert len(read_log(folder).rounds) == ROUNDS + 1  # reading is always possible
    finally:
        holder.kill()
        holder.wait()
    with Log(folder):
        pass


def test_a_full_disk_ends_the_run_with_a_reason_and_leaves_a_log_that_reads(folder):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Log(folder) as log:
        resource.setrlimit(resource.RLIMIT_FSIZE, ((folder / LOG).stat().st_size + 40, before[1]))  # part of a line
        try:
            with pytest.raises(RunError, match=r"rounds.jsonl cannot be written .* make room and resume"):
                log.append(round_of(7))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    content = read_log(folder)
    assert (len(content.rounds), content.torn_bytes) == (ROUNDS + 1, 40)
