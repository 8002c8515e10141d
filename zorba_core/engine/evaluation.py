"""Evaluation of the shared model: accuracy and mean loss.

Shapes: E examples, R rows, C candidate answers of an example.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from zorba_core.engine.blocks import Blocks
from zorba_core.engine.randomness import stream
from zorba_core.engine.rows import Examples, Rows

BATCH_SIZE = 64  # rows that go through the blocks together
PRIOR_ROWS = 96


@dataclass(frozen=True)
class Evaluation:
    accuracy: float  # share of examples that are right, by ``metric``
    loss: float  # mean cross-entropy, nats: of the labels or options, or of the answers' tokens
    metric: str = "accuracy"  # or exact_match: greedy decoding writes all tokens of the answer


def choose_rows(num_rows: int, most: int | None, seed: int) -> np.ndarray:
    """Indices of a fixed random subset of at most ``most`` rows, sorted; all rows if ``most`` is None."""
    if most is None or most >= num_rows:
        return np.arange(num_rows)
    return np.sort(stream("evaluation-rows", seed).choice(num_rows, size=most, replace=False))


def spread(num_rows: int, most: int) -> np.ndarray:
    """Indices of at most ``most`` rows at equal distances, sorted."""
    return np.unique(np.linspace(0, num_rows - 1, most).round().astype(int))


@torch.no_grad()
def evaluate(network: Blocks, rows: Rows, precision: str = "highest") -> Evaluation:
    """Accuracy and loss of the network, every block with its weights, with products of this precision."""
    with network.at_precision(precision):
        parts = [batch.scored(network, final) for _, batch, final in _in_batches(network, rows)]
    loss = sum(part.loss for part in parts) / sum(part.weight for part in parts)
    return Evaluation(sum(part.right for part in parts) / len(rows), loss, rows.metric)


@torch.no_grad()
def label_log_probabilities(network: Blocks, rows: Rows) -> np.ndarray:
    """Log-probabilities of each example's labels or options, (E, C), float64; -inf where an example has fewer than C
    options. They are the log-softmax over the scores of :meth:`zorba_core.engine.rows.Rows.scores`. The labels of
    ``rows`` are not used."""
    log_p_EC = np.full((len(rows), rows.answers), -np.inf)
    with network.at_precision("highest"):
        for chosen, batch, final in _in_batches(network, rows):
            part = batch.scores(network, final).log_softmax(dim=1).cpu().numpy()
            log_p_EC[chosen, : part.shape[1]] = part
    return log_p_EC


def shared_preference(network: Blocks, rows: Examples, held_N: Sequence[np.ndarray]) -> np.ndarray:
    """The mean over clients of :func:`label_prior` on each client's rows, (C,), float64."""
    most = prior_rows(len(held_N))
    chosen_N = [held[spread(len(held), most)] for held in held_N]
    return np.mean([label_prior(network, rows.rows(chosen), most) for chosen in chosen_N], axis=0)


def prior_rows(num_clients: int) -> int:
    """The number of rows on which each client measures its preference."""
    return -(-PRIOR_ROWS // num_clients)


def label_prior(network: Blocks, rows: Examples, most: int = PRIOR_ROWS) -> np.ndarray:
    """The model's mean preference among the label words, (C,), float64: the mean of the log-probabilities over at most
    ``most`` rows. The labels of ``rows`` are not used.

    Zhao et al., Calibrate Before Use, 2021 (arXiv:2102.09690) estimate it from prompts without a text. Rows of the task
    are closer to the prompts of the evaluation.

    Args:
        rows: examples with the same label words.
    """
    plain = rows.rows(spread(len(rows), most)).with_prior(())
    return label_log_probabilities(network, plain).mean(axis=0)


def _in_batches(network: Blocks, rows: Rows) -> Iterator[tuple[np.ndarray, Rows, Tensor]]:
    """Yield batches of about ``BATCH_SIZE`` rows: indices of the examples, the examples, and the hidden states that
    their loss needs. Examples of similar length are in one batch, which limits the padding."""
    order_E = torch.argsort(rows.length_E, stable=True)
    # Rows before each example: a new batch begins at each multiple of BATCH_SIZE.
    rows_E = rows.rows_E[order_E]
    before_E = rows_E.cumsum(0) - rows_E
    batch_E = torch.div(before_E, BATCH_SIZE, rounding_mode="floor")
    chosen_by_batch = order_E.split(torch.unique_consecutive(batch_E, return_counts=True)[1].tolist())
    for chosen in chosen_by_batch:
        batch = rows.rows(chosen).to(network.device)
        yield chosen.numpy(), batch, network(batch)
