"""A run whose answers are written: it learns, and its record says by what it was judged."""

from __future__ import annotations

import numpy as np
import pytest

from zorba_core.allocation import Allocation
from zorba_core.cli.training import summary_lines
from zorba_core.data.load import load
from zorba_core.data.task import Overrides
from zorba_core.engine.settings import Settings
from zorba_core.runs.replay import replay
from zorba_core.runs.train import fine_tune


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    settings = Settings(
        rounds=14, lr=1e-2, directions=4, batch_size=4, seq_len=40, eval_rows=32, eval_every=7, target=0.9
    )
    allocation = Allocation(np.arange(12)[:, None] % 2 == np.arange(2))  # two clients, every other block each
    folder = tmp_path_factory.mktemp("text")
    return fine_tune(allocation, dataset="toy-verdicts", settings=settings, runs_folder=folder, force=True)


def test_opt_mini_learns_to_write_verdicts_with_forward_passes_only(run):
    losses = run.metrics["eval_loss"].dropna().tolist()
    assert losses[-1] < losses[0] - 0.5  # nats a token


def test_the_record_names_exact_match(run):
    assert run.environment["data"]["metric"] == "exact_match"
    assert run.environment["data"]["answers_cut"] == 0
    assert any("exact match, validation (32 rows)" in line for line in summary_lines(run))


def test_the_run_replays_to_the_same_weights_and_writes(run):
    rebuilt = replay(run.path)
    assert rebuilt.network.weights_sha256() == run.summary["weights_sha256"]
    texts = load("toy-verdicts", "validation")["text"].head(6).tolist()
    assert len(run.predict(texts)["prediction"]) == 6


def test_label_words_of_several_tokens_train_and_replay(tmp_path):
    settings = Settings(rounds=2, directions=2, batch_size=4, seq_len=40, eval_rows=16, eval_every=2)
    allocation = Allocation(np.ones((12, 2), dtype=bool))
    words, prompt = ["very bad", "very good"], "{text} In short:"
    run = fine_tune(
        allocation, dataset="toy-reviews", overrides=Overrides(prompt=prompt, label_words=words), settings=settings,
        runs_folder=tmp_path, force=True,
    )  # fmt: skip
    assert (run.config["label_words"], run.task.prompt) == (words, prompt)
    assert replay(run.path).network.weights_sha256() == run.summary["weights_sha256"]
