from __future__ import annotations

import dataclasses
import resource
import subprocess
import sys

import numpy as np
import pytest

from zorba_core.engine.records import EvaluationEntry, RoundEntry
from zorba_core.errors import InvalidInputError, MissingDataError, RunError
from zorba_core.runs.trajectory import Header, TrajectoryLog, read_trajectory

HEADER = Header("c" * 64, "a" * 64, "b" * 64, num_clients=3, num_blocks=2)
ROUNDS = 6


def entry(t: int) -> RoundEntry:
    generator = np.random.default_rng(t)
    return RoundEntry(
        round=t,
        seeds_Q=generator.integers(2**32, size=2, dtype=np.uint32),
        rho_NQ=generator.normal(size=(3, 2)),
        status_N=np.array([0, 1, 0], np.uint8),
        loss_N=generator.random(3),
        allocation="a" * 16,
        lr=0.1 + t * 1e-17,
        mu=1e-3,
        seconds=1.5 * t,
        forward_passes=9 * t,
        scalars_up=4 * t,
        scalars_down=18 * t,
    )


@pytest.fixture
def path(tmp_path):
    """A log of six rounds, evaluated before the first and after the third."""
    log = TrajectoryLog(tmp_path / "trajectory.log")
    log.write_header(HEADER)
    log.write_evaluation(EvaluationEntry(0, 0.7, 0.5, "0" * 64))
    for t in range(1, ROUNDS + 1):
        log.write_round(entry(t))
        if t == 3:
            log.write_evaluation(EvaluationEntry(3, 0.6, 0.75, "3" * 64))
    log.close()
    return tmp_path / "trajectory.log"


def test_every_bit_comes_back_also_of_what_is_no_number(path):
    log = TrajectoryLog(path)
    odd = dataclasses.replace(entry(7), rho_NQ=np.array([[np.nan, -0.0], [np.inf, 5e-324], [-np.inf, 1 / 3]]))
    log.write_round(odd)
    log.close()
    found = read_trajectory(path)
    assert found.header == HEADER
    assert [e.round for e in found.rounds] == [1, 2, 3, 4, 5, 6, 7]
    for made, read in zip([*map(entry, range(1, 7)), odd], found.rounds, strict=True):
        for field in dataclasses.fields(RoundEntry):
            was, is_now = getattr(made, field.name), getattr(read, field.name)
            if isinstance(was, np.ndarray):
                assert was.tobytes() == is_now.tobytes()
                assert was.dtype == is_now.dtype
            else:
                assert was == is_now
    assert [e.round for e in found.evaluations] == [0, 3]


def test_a_log_cut_at_any_byte_keeps_the_whole_records_before_it(path, tmp_path):
    whole = path.read_bytes()
    ends = np.cumsum([len(line) for line in whole.splitlines(keepends=True)])
    for cut in range(0, len(whole), 7):
        torn = tmp_path / "torn.log"
        torn.write_bytes(whole[:cut])
        found = read_trajectory(torn)
        assert found.end == max([0, *ends[ends <= cut]])
        assert found.dropped_bytes == cut - found.end
    assert read_trajectory(path).dropped_bytes == 0


def test_damage_before_the_last_record_is_refused_with_its_place(path):
    whole = path.read_bytes()
    starts = np.cumsum([0, *(len(line) for line in whole.splitlines(keepends=True))])
    generator = np.random.default_rng(0)
    for position in generator.choice(starts[-3], size=60, replace=False):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(generator.integers(8))
        path.write_bytes(damaged)
        record = int(np.searchsorted(starts, position, side="right"))
        with pytest.raises(InvalidInputError, match=rf"record {record} \(byte {starts[record - 1]} of .*damaged"):
            read_trajectory(path)


def test_a_record_taken_out_or_put_elsewhere_is_noticed(path):
    lines = path.read_bytes().splitlines(keepends=True)
    for changed in ([*lines[:3], *lines[4:]], [*lines[:3], lines[4], lines[3], *lines[5:]]):
        path.write_bytes(b"".join(changed))
        with pytest.raises(InvalidInputError, match=r"record 4 .*damaged"):
            read_trajectory(path)


def test_a_damaged_last_record_counts_as_torn(path):
    whole = path.read_bytes()
    path.write_bytes(whole[:-9] + b"x" + whole[-8:])
    assert read_trajectory(path).rounds_done == ROUNDS - 1


def test_writing_goes_on_behind_the_whole_records(path):
    path.write_bytes(path.read_bytes()[:-5])
    log = TrajectoryLog(path)
    assert (log.trajectory.rounds_done, log.trajectory.dropped_bytes > 0) == (5, True)
    log.write_resumed()
    log.write_round(entry(6))
    log.close()
    found = read_trajectory(path)
    assert (found.rounds_done, found.resumed_after, found.dropped_bytes) == (6, (5,), 0)


def test_rounds_follow_each_other(path):
    log = TrajectoryLog(path)
    log.write_round(entry(8))
    log.close()
    with pytest.raises(InvalidInputError, match="round 8 stands where round 7 belongs"):
        read_trajectory(path)


def test_one_process_writes_at_a_time_and_its_death_frees_the_log(path):
    script = f"""
import sys, time
from zorba_core.runs.trajectory import TrajectoryLog
log = TrajectoryLog({str(path)!r})
print("locked", flush=True)
time.sleep(60)
"""
    holder = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(InvalidInputError, match="another process is writing this run"):
            TrajectoryLog(path)
        assert read_trajectory(path).rounds_done == ROUNDS  # reading is always possible
    finally:
        holder.kill()
        holder.wait()
    TrajectoryLog(path).close()


def test_what_is_no_log_is_said(tmp_path):
    with pytest.raises(MissingDataError, match="no such log"):
        read_trajectory(tmp_path / "none.log")
    (tmp_path / "other.log").write_text("round,rho\n1,0.5\n2,0.25\n")
    with pytest.raises(InvalidInputError, match=r"record 1 \(byte 0 of 23\) is damaged"):
        read_trajectory(tmp_path / "other.log")


def test_a_round_of_twenty_clients_and_ten_directions_takes_kilobytes(tmp_path):
    log = TrajectoryLog(tmp_path / "trajectory.log")
    log.write_header(dataclasses.replace(HEADER, num_clients=20))
    before = (tmp_path / "trajectory.log").stat().st_size
    log.write_round(
        dataclasses.replace(
            entry(1),
            seeds_Q=np.arange(10, dtype=np.uint32),
            rho_NQ=np.random.default_rng(0).normal(size=(20, 10)),
            status_N=np.zeros(20, np.uint8),
            loss_N=np.ones(20),
        )
    )
    assert 20 * 10 * 8 < (tmp_path / "trajectory.log").stat().st_size - before < 3000


def test_a_full_disk_ends_the_run_with_a_reason_and_leaves_a_log_that_reads(path):
    log = TrajectoryLog(path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 40, before[1]))  # room for part of a record
    try:
        with pytest.raises(RunError, match=r"trajectory.log cannot be written .* make room and resume"):
            log.write_round(entry(7))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        log.close()
    found = read_trajectory(path)
    assert (found.rounds_done, found.dropped_bytes) == (ROUNDS, 40)
