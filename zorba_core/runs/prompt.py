"""The prompt chooses itself: of a task's candidate prompts, the one with the lowest loss before training.

Each client computes the centred loss (:mod:`zorba_core.engine.rows`) of each prompt on a few of its labelled training
rows, and sends one number a prompt. The server takes their mean. Few rows are enough to drop most prompts; the best
three are measured on more rows. Test rows are never read. The centred loss suits, because training lowers it: a prompt
that is better before training was the better one afterwards too, wherever both were measured.

Shapes: E rows of a client, C labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from transformers import PreTrainedTokenizerBase

from zorba_core.data.divide import divide
from zorba_core.data.encode import encode
from zorba_core.data.load import load
from zorba_core.data.task import Task
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.evaluation import label_log_probabilities
from zorba_core.engine.randomness import stream
from zorba_core.engine.settings import Settings
from zorba_core.runs.load import check_tokens

FEW, MORE, FINALISTS = 32, 64, 3  # rows of all clients together, at first and for the best prompts
_LEAST = 4  # rows of a client: fewer say little about a loss that is centred over them

# (prompts, rows of a client) -> the mean over clients of each prompt's loss
Measure = Callable[[Sequence[str], int], Sequence[float] | np.ndarray]


@dataclass(frozen=True)
class PromptChoice:
    """The chosen prompt, and each candidate with its loss in nats and the rows it was measured on, the best first."""

    prompt: str
    table: tuple[tuple[str, float, int], ...]

    def lines(self) -> list[str]:
        """For a person: a line for each prompt."""
        first = "prompts by their loss before training, on training rows; the first is taken (--prompt decides)"
        return [first, *(f"  {loss:.3f}  {rows:>3} rows  {prompt!r}" for prompt, loss, rows in self.table)]

    def describe(self) -> list[dict[str, Any]]:
        """For a run's config."""
        return [{"prompt": prompt, "loss": loss, "rows": rows} for prompt, loss, rows in self.table]


def choose_prompt(prompts: Sequence[str], num_clients: int, measure: Measure) -> PromptChoice:
    """The prompt with the lowest loss, by halving: all on :data:`FEW` rows, the best three on :data:`MORE`."""
    few, more = (max(_LEAST, -(-rows // num_clients)) for rows in (FEW, MORE))
    first = dict(zip(prompts, measure(prompts, few), strict=True))
    ranked = sorted(first, key=first.__getitem__)
    finalists = ranked[:FINALISTS]
    last = dict(zip(finalists, measure(finalists, more), strict=True))
    finalists.sort(key=last.__getitem__)
    table = [(prompt, last[prompt], more * num_clients) for prompt in finalists]
    table += [(prompt, first[prompt], few * num_clients) for prompt in ranked[FINALISTS:]]
    return PromptChoice(finalists[0], tuple(table))


def choose_local_prompt(
    task: Task,
    tokenizer: PreTrainedTokenizerBase,
    network: Blocks,
    num_clients: int,
    settings: Settings,
    *,
    alpha: float,
    division: str,
) -> PromptChoice:
    """:func:`choose_prompt` with all clients in this process."""
    frame = load(task)
    held_N = divide(frame, num_clients, alpha, settings.seed, division)

    def measure(prompts: Sequence[str], rows: int) -> np.ndarray:
        losses_NP = [
            prompt_losses(
                task, frame.iloc[held], tokenizer, network, settings.seq_len, prompts, rows, key=(settings.seed, n)
            )
            for n, held in enumerate(held_N)
        ]
        return np.mean(losses_NP, axis=0)

    return choose_prompt(task.prompts, num_clients, measure)


def prompt_losses(
    task: Task,
    frame: pd.DataFrame,
    tokenizer: PreTrainedTokenizerBase,
    network: Blocks,
    seq_len: int,
    prompts: Sequence[str],
    rows: int,
    *,
    key: tuple[int, int],
) -> list[float]:
    """One client's centred loss of each prompt, nats.

    Args:
        frame: the client's labelled rows, of which ``rows`` are drawn.
        key: (seed of the run, client), which decide the rows.
    """
    count = min(rows, len(frame))
    drawn = frame.iloc[np.sort(stream("prompt-rows", *key).choice(len(frame), size=count, replace=False))]
    losses = []
    for prompt in prompts:
        encoded = encode(replace(task, prompt=prompt, prompts=()), drawn, tokenizer, seq_len)
        check_tokens(network, tokenizer, encoded)
        log_p_EC = label_log_probabilities(network, encoded)
        log_p_EC = log_p_EC - log_p_EC.mean(axis=0)
        log_p_EC = log_p_EC - np.logaddexp.reduce(log_p_EC, axis=1, keepdims=True)
        losses.append(float(-log_p_EC[np.arange(count), encoded.label_E.numpy()].mean()))
    return losses
