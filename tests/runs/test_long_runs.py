"""Runs of thousands of rounds: resumed and replayed from a checkpoint, to the bits of the log alone."""

from __future__ import annotations

import pytest

from tests.runs.resumable import ALLOCATION, SETTINGS, assert_ends_alike
from zorba_core.engine.callbacks import Callback
from zorba_core.errors import InvalidInputError
from zorba_core.runs import TRAJECTORY, complete, read_run
from zorba_core.runs import resume as resuming
from zorba_core.runs.checkpoint import CHECKPOINT, checkpoint_round
from zorba_core.runs.replaying import replay_rounds
from zorba_core.runs.resume import replay, resume
from zorba_core.runs.session import fine_tune
from zorba_core.runs.trajectory import read_trajectory

pytestmark = pytest.mark.usefixtures("rows_divided_once")


@pytest.fixture
def replayed(monkeypatch):
    """How many rounds each replay went through."""
    counts = []

    def counted(network, allocation, settings, rounds, evaluations=(), start=0):
        counts.append(len(rounds) - start)
        return replay_rounds(network, allocation, settings, rounds, evaluations, start)

    monkeypatch.setattr(resuming, "replay_rounds", counted)
    return counts


class StopAt(Callback):
    def __init__(self, round_index: int) -> None:
        self._at, self._round = round_index, 0

    def on_step(self, entry):
        self._round = entry.round

    def wants_stop(self):
        return self._round >= self._at


def test_a_long_run_is_resumed_and_replayed_from_its_checkpoint(tiny_opt_folder, tmp_path, monkeypatch, replayed):
    settings = SETTINGS.replace(rounds=20, eval_every=2)
    options = {"model": tiny_opt_folder, "settings": settings, "force": True}
    whole = fine_tune(ALLOCATION, runs_folder=tmp_path / "short", **options)
    assert not (whole.path / CHECKPOINT).exists()  # a short run's log is replayed in no time
    monkeypatch.setattr(complete, "ROUNDS_APART", 6)
    stopped = fine_tune(ALLOCATION, runs_folder=tmp_path / "long", callbacks=[StopAt(16)], **options)
    assert checkpoint_round(stopped.path) == 12
    resumed = resume(stopped.path)
    assert replayed == [4]  # rounds 13 to 16
    assert_ends_alike(resumed, whole)
    assert checkpoint_round(stopped.path) == 18
    sha256 = {entry.round: entry.weights_sha256 for entry in read_trajectory(stopped.path / TRAJECTORY).evaluations}
    for round_index, rounds in ((20, 2), (18, 0), (16, 16)):
        assert replay(stopped.path, round_index=round_index).network.weights_sha256() == sha256[round_index]
        assert replayed[-1] == rounds


def test_a_damaged_checkpoint_is_named_and_the_log_alone_is_enough(tiny_opt_folder, tmp_path, monkeypatch):
    settings = SETTINGS.replace(rounds=6, eval_every=2)
    monkeypatch.setattr(complete, "ROUNDS_APART", 4)
    run = fine_tune(ALLOCATION, model=tiny_opt_folder, settings=settings, runs_folder=tmp_path, force=True)
    content = bytearray((run.path / CHECKPOINT).read_bytes())
    content[-5] ^= 16
    (run.path / CHECKPOINT).write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"checkpoint.safetensors does not hold the weights .* remove it"):
        replay(run.path)
    (run.path / CHECKPOINT).unlink()
    assert replay(run.path).network.weights_sha256() == read_run(run.path).summary["weights_sha256"]
