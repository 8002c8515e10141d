"""Lines that a run says before its first round: what it cuts off, where its time goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zorba_core.engine.estimators.registry import ESTIMATORS
from zorba_core.engine.loop import FederatedRows
from zorba_core.engine.settings import Settings

_MANY_ROWS = 5_000  # fewer are evaluated within seconds
_EXACT_PASSES = 3  # forward passes that one forward and one backward pass take


def cut_lines(facts: Mapping[str, Any], seq_len: int) -> list[str]:
    """How many rows lose what to ``seq_len``; nothing where none does."""
    lost = {"prompts_cut": "their text", "answers_cut": "their answer"}
    return [
        f"{facts[name]:,} of {facts['train_rows']:,} rows are longer than seq_len {seq_len} and lose the end of "
        f"{what}; a larger seq_len keeps it"
        for name, what in lost.items()
        if facts.get(name)
    ]


def evaluation_lines(rows: FederatedRows, settings: Settings) -> list[str]:
    """That evaluations are most of the run, where they are."""
    evaluated, participants = len(rows.evaluation), max(1, round(len(rows.held_N) * settings.participation))
    passes = _EXACT_PASSES if ESTIMATORS[settings.estimator].exact else settings.directions + 1
    between = min(settings.eval_every, settings.rounds) * participants * settings.batch_size * passes
    if evaluated < _MANY_ROWS or evaluated < between:
        return []
    return [
        f"each evaluation reads {evaluated:,} rows, more than the {between:,} of the rounds between two evaluations; "
        "a smaller eval_rows, such as 1000, or a larger eval_every leaves more of the time to the rounds"
    ]
