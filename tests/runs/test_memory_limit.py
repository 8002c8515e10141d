"""Runs whose model stays in its files: within a limit, with the bits of a run in memory, whatever kills them."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import zlib

import pytest

from tests.runs.resumable import ALLOCATION, SETTINGS, assert_ends_alike
from zorba_core.engine.callbacks import Callback
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.planning.byte_sizes import bytes_of
from zorba_core.runs import TRAJECTORY, read_run
from zorba_core.runs.resume import replay, resume
from zorba_core.runs.session import fine_tune
from zorba_core.runs.streaming import limit as limits
from zorba_core.runs.streaming import store
from zorba_core.runs.streaming.network import BLOCKS
from zorba_core.runs.trajectory import read_trajectory
from zorba_core.runs.writer import RunWriter

LIMITED = dataclasses.replace(SETTINGS, memory_limit="2GiB")
pytestmark = pytest.mark.usefixtures("rows_divided_once")


@pytest.mark.parametrize("text", ["1GiB", "1.5 gib", "750MB", "64k", "1073741824"])
def test_amounts_of_memory_are_read(text):
    amounts = {"1GiB": 2**30, "1.5 gib": 3 * 2**29, "750MB": 750 * 10**6, "64k": 2**16, "1073741824": 2**30}
    assert bytes_of(text) == amounts[text]


@pytest.mark.parametrize("text", ["", "much", "-1GiB", "0GiB", "1 GiB B", "1e3MB", "9" * 40])
def test_what_is_no_amount_is_refused(text):
    with pytest.raises(InvalidInputError, match="no amount of memory"):
        dataclasses.replace(SETTINGS, memory_limit=text)


@pytest.mark.parametrize(
    "other",
    [
        {"estimator": "reference"},
        {"estimator": "jvp"},
        {"dtype": "bfloat16"},
        {"method": "fedit"},
        {"train": "lora"},
    ],
)
def test_what_needs_the_whole_model_is_refused(other):
    with pytest.raises(InvalidInputError, match=r"^memory_limit "):
        dataclasses.replace(LIMITED, num_perturbations=None, **other)


def test_a_limited_run_ends_with_the_bits_of_a_run_in_memory(whole, tiny_opt_folder, tmp_path, monkeypatch):
    said, left, finish = [], [], RunWriter.finish

    def finished(writer, summary):
        left.append((writer.path / BLOCKS).exists())
        finish(writer, summary)

    monkeypatch.setattr(RunWriter, "finish", finished)
    run = fine_tune(ALLOCATION, model=tiny_opt_folder, settings=LIMITED, runs_folder=tmp_path, notice=said.append)
    assert run.summary["weights_sha256"] == whole.summary["weights_sha256"]
    assert run.summary["final_loss"] == whole.summary["final_loss"]
    memory = run.summary["memory"]
    assert memory["limit_bytes"] == 2**31
    assert 0 < memory["peak_bytes"] < 2**31
    assert "the model stays in its files" in said[0]
    assert left == [False]  # killed behind its summary it would leave them for good
    assert (
        replay(run.path, round_index=3).network.weights_sha256()
        == replay(whole.path, round_index=3).network.weights_sha256()
    )


def test_a_limit_too_small_is_refused_with_the_amount_that_would_do(tiny_opt_folder, tmp_path):
    small = dataclasses.replace(SETTINGS, memory_limit="1MiB")
    with pytest.raises(InvalidInputError, match=r"memory limit 1 MiB is too small") as refused:
        fine_tune(ALLOCATION, model=tiny_opt_folder, settings=small, runs_folder=tmp_path)
    assert not list(tmp_path.iterdir())
    least = re.search(r"give --memory-limit (\w+)", str(refused.value))[1]
    assert bytes_of(least) > 2**20


def test_a_run_above_its_limit_ends_with_one_line_and_resumes(whole, tiny_opt_folder, tmp_path, monkeypatch):
    visits, own = [], limits.resident_bytes

    def grown():  # as if something else in the process had taken a gigabyte, after some rounds
        visits.append(None)
        return own() + (2**32 if len(visits) > 70 else 0)

    monkeypatch.setattr(limits, "resident_bytes", grown)
    with pytest.raises(RunError, match="its memory limit is 2048 MiB; resume it with --memory-limit"):
        fine_tune(ALLOCATION, model=tiny_opt_folder, settings=LIMITED, runs_folder=tmp_path)
    monkeypatch.undo()
    (folder,) = tmp_path.iterdir()
    resumed = resume(folder, memory_limit="4GiB")
    assert resumed.summary["weights_sha256"] == whole.summary["weights_sha256"]


def killed_in_a_write(folder, tiny_opt_folder, at: int) -> None:
    """A process of its own, killed when it has written half of its ``at``-th block."""
    child = os.fork()
    if child == 0:
        try:
            replaced, writes = os.replace, []

            def half_written(source, target):
                if str(source).endswith(".writing"):
                    writes.append(source)
                    if len(writes) == at:
                        os.truncate(source, os.path.getsize(source) // 2)
                        os.kill(os.getpid(), signal.SIGKILL)
                replaced(source, target)

            store.os.replace = half_written
            begun = [path.parent for path in folder.glob(f"*/{TRAJECTORY}")]
            if begun:
                resume(begun[0])
            else:
                fine_tune(ALLOCATION, model=tiny_opt_folder, settings=LIMITED, runs_folder=folder)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def test_kill_9_in_the_middle_of_a_blocks_write_ends_alike(whole, tiny_opt_folder, tmp_path):
    for at in (5, 4):
        killed_in_a_write(tmp_path, tiny_opt_folder, at)
    (folder,) = tmp_path.iterdir()
    assert list((folder / BLOCKS).glob("*.writing"))
    assert 0 < read_trajectory(folder / TRAJECTORY).rounds_done < SETTINGS.rounds
    assert resume(folder).summary["weights_sha256"] == whole.summary["weights_sha256"]
    assert_ends_alike(read_run(folder), whole)


@pytest.mark.parametrize("harm", ["torn", "altered", "of another chain"])
def test_a_damaged_block_is_rebuilt(whole, tiny_opt_folder, tmp_path, harm):
    killed_in_a_write(tmp_path, tiny_opt_folder, 8)
    (folder,) = tmp_path.iterdir()
    files = sorted((folder / BLOCKS).glob("block-?"))
    assert len(files) == 3
    for path in files[:2]:
        content = bytearray(path.read_bytes())
        if harm == "altered":
            content[-5] ^= 1
        elif harm == "of another chain":
            content[10] ^= 1
        path.write_bytes(content[: len(content) // 2] if harm == "torn" else content)
    assert resume(folder).summary["weights_sha256"] == whole.summary["weights_sha256"]


class ChangeABlock(Callback):
    """Flips a bit of a block's file after a round, as a bad disk or another program does."""

    def __init__(self, round_index: int) -> None:
        self.round_index, self.folder = round_index, None

    def on_start(self, folder):
        self.folder = folder

    def on_step(self, entry):
        if entry.round == self.round_index:
            path = sorted((self.folder / BLOCKS).glob("block-?"))[1]
            content = bytearray(path.read_bytes())
            content[-5] ^= 1
            path.write_bytes(content)


def test_a_block_that_changes_under_a_run_ends_it_and_is_rebuilt(whole, tiny_opt_folder, tmp_path):
    with pytest.raises(RunError, match=r"block-1 has changed under the run; resume it"):
        fine_tune(
            ALLOCATION, model=tiny_opt_folder, settings=LIMITED, runs_folder=tmp_path, callbacks=[ChangeABlock(3)]
        )
    (folder,) = tmp_path.iterdir()
    assert resume(folder).summary["weights_sha256"] == whole.summary["weights_sha256"]
    assert_ends_alike(read_run(folder), whole)


def test_other_numbers_in_a_block_do_not_pass_for_the_rounds_that_were_evaluated(tiny_opt_folder, tmp_path):
    """A file whose checksum and fingerprint are right for other numbers: what was evaluated last shows them."""

    class StopAt(Callback):
        rounds = 0

        def on_step(self, entry):
            self.rounds = entry.round

        def wants_stop(self):
            return self.rounds == 3

    run = fine_tune(ALLOCATION, model=tiny_opt_folder, settings=LIMITED, runs_folder=tmp_path, callbacks=[StopAt()])
    path = sorted((run.path / BLOCKS).glob("block-?"))[1]
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    content[40:44] = zlib.crc32(content[64:]).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match="the log's round 3 replays to other weights"):
        resume(run.path)
