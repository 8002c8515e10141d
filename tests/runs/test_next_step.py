"""What a run that missed its target suggests: only what its losses show."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest

from zorba_core.allocation import Problem, solve
from zorba_core.cli.train import summary_lines
from zorba_core.engine.settings import Settings
from zorba_core.runs.next_step import next_step
from zorba_core.runs.session import fine_tune


def ended(losses, *, reached=None, blocks=24, **config):
    evaluations = pd.DataFrame({"round": range(0, 10 * len(losses), 10), "eval_loss": losses})
    summary = {"rounds_to_target": reached, "rounds_done": 10 * (len(losses) - 1), "total_blocks": blocks}
    return SimpleNamespace(
        summary=summary, evaluations=evaluations, config={"num_clients": 4, "num_blocks": 12} | config
    )


@pytest.mark.parametrize(
    ("losses", "says"),
    [
        ([2.0, 1.8, 1.6, 1.4, 1.2], "still falling: more rounds (--rounds 80)"),
        ([2.0, 1.2, 1.0, 1.1, 1.5], "rose again after round 20: --schedule cosine"),
        ([2.0, 2.1, 2.2, 2.5], "did not fall: zorba tune"),
        ([2.0, 1.1, 1.02, 1.01, 1.0, 1.0, 1.0], "has settled"),
    ],
)
def test_the_losses_decide_what_is_suggested(losses, says):
    assert says in next_step(ended(losses))


@pytest.mark.parametrize(
    ("losses", "says"),
    [
        ([2.0, 1.1, 1.02, 1.01, 1.0, 1.0, 1.0], "took the rate to zero: more rounds (--rounds 120)"),
        ([2.0, 1.2, 1.0, 1.1, 1.5], "zorba tune for a smaller rate"),
    ],
)
def test_what_a_schedule_does_to_every_loss_is_not_taken_for_an_end(losses, says):
    assert next_step(ended(losses, schedule="cosine")).endswith((says, f"{says}, or zorba tune for a larger rate"))


def test_few_blocks_are_named_beside_it():
    assert next_step(ended([2.0, 1.8, 1.6, 1.4], blocks=13)).endswith(
        "13 of 48 blocks are activated: where memory allows, more (--budgets)"
    )


@pytest.mark.parametrize(
    ("losses", "reached"), [([2.0, 1.0, 0.5, 0.2], 10), ([2.0, 1.0], None), ([2.0, float("nan"), 1.0, 1.0], None)]
)
def test_nothing_is_suggested_where_there_is_no_need_or_nothing_to_tell_from(losses, reached):
    assert next_step(ended(losses, reached=reached)) is None


def test_the_summary_of_a_run_has_the_line(tiny_opt_folder, tmp_path):
    settings = Settings(rounds=6, directions=2, batch_size=2, seq_len=16, eval_every=1, eval_rows=20)
    plan = solve(Problem((3, 2), 3)).allocation
    run = fine_tune(plan, model=tiny_opt_folder, settings=settings, runs_folder=tmp_path, force=True)
    advice = next_step(run)
    assert advice
    assert any(line.split() == ["next", *advice.split()] for line in summary_lines(run))
