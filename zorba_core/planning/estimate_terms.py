"""What each estimator holds while it estimates, with the model in memory: the terms of
:mod:`zorba_core.planning.engine_memory`, which says what they are good for. No torch here.

Shapes: M blocks of D parameters, N clients, B rows of a client, R rows of all, L positions, H hidden size,
Q directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from zorba_core.errors import InvalidInputError
from zorba_core.planning.answers import LABEL_WORDS
from zorba_core.planning.engine_load import LEAST_COLUMNS, Load
from zorba_core.planning.gradient_plan import INDICES_TOGETHER, MOST_TOGETHER, PIECE_TOGETHER, GradientPlan
from zorba_core.planning.shapes import ModelShape

TOKEN_BYTES = 8
# Numbers of a direction drawn at a time (engine.directions), at 2 bytes of random bits, 4 of the number drawn.
_NOISE_NUMBERS, _NOISE_BYTES = 2**17, 6
_INDEX_BYTES, _RANDOM_BYTES = 8, 2  # of a number that is looked up, as NumPy does, and of its random bits
_MOST_RANDOM = 2**21  # bytes, engine.noise.SideBySide


@dataclass(frozen=True)
class Term:
    """A part of the memory: when it is held, what it is, how much, and where in the engine it comes from."""

    phase: Literal["always", "estimate", "update", "evaluate"]
    name: str
    num_bytes: int
    source: str


def estimate_terms(shape: ModelShape, load: Load, active_blocks: Sequence[int] | np.ndarray | None) -> list[Term]:
    block, model_blocks = shape.trained_parameters * load.number_bytes, shape.num_blocks
    position = load.number_bytes * load.seq_len  # bytes of one number a position, for one row
    if load.first_order:
        return _backward(shape, load)
    noise = noise_term(shape, "estimate")
    tokens = Term("estimate", "token ids", 2 * load.rows * load.seq_len * TOKEN_BYTES, "the batch, and joined")
    if load.estimator == "cohort":
        return [tokens, *_cohort(shape, load), noise]
    if load.estimator == "exact":
        return [tokens, *_exact(shape, load, active_blocks), noise]
    logits = load.answers.logit_bytes(load.client_rows, shape.vocabulary, shape.embedding)
    working = max(load.client_rows * position * shape.working_width(load.seq_len), logits)
    directions = Term("estimate", "directions of all blocks", model_blocks * block, f"{load.estimator}: one v_q")
    if load.estimator == "reference":
        heaviest = max(active_blocks) if active_blocks is not None and len(active_blocks) else model_blocks
        return [
            tokens,
            directions,
            Term("estimate", "weights put aside", heaviest * block, "reference: perturbed"),
            Term("estimate", "one block's tensors", working, "one client's rows"),
            noise,
        ]
    if load.estimator == "jvp":
        # Plain attention: scaled copies, then three tensors of scores. A factor beside each wide tensor not in place.
        copies, scores = shape.query + shape.key_value, shape.heads * load.seq_len
        attention = shape.attention_width + max(copies + 2 * scores, 3 * scores - shape.hidden)
        feed_forward = 3 * shape.feed_forward_width - 3 * shape.hidden - shape.ffn
        widest = max(load.client_rows * position * max(2 * attention, feed_forward), 2 * logits)
        held = Term("estimate", "one block's tensors and derivatives", widest, "jvp: dual numbers")
        return [tokens, directions, held, noise]
    raise InvalidInputError(
        f"there is no memory model of estimator {load.estimator!r}; use cohort, exact, reference or jvp"
    )


def _cohort(shape: ModelShape, load: Load) -> list[Term]:
    rows, at_once = load.rows, load.rows_at_once(shape.hidden)
    position = load.number_bytes * load.seq_len
    state = rows * position * shape.hidden
    block = shape.trained_parameters * load.number_bytes
    logits = load.answers.logit_bytes(rows, shape.vocabulary, shape.embedding)
    together = load.directions_at_once(shape.hidden)
    terms = [
        *read_terms(shape, load, rows),
        Term("estimate", "hidden states", state, "cohort: hidden_RLH"),
        Term("estimate", "states before the first active block", state, "cohort: copies"),
    ]
    if together is None:
        tensors = at_once * position * (shape.working_width(load.seq_len) - shape.hidden)
        what = "a block in 32 bits" if load.widens else "weights put aside"
        terms.append(Term("estimate", what, block, "wide_copies" if load.widens else "cohort: moved"))
    else:
        columns = max(LEAST_COLUMNS, load.rank + 1)
        widths = 10 * shape.hidden + 2 * shape.ffn  # inputs and outputs of a block's matrices, together
        terms += [
            Term("estimate", "states along directions", together * state, "cohort_along: Copies"),
            Term("estimate", "factors", 2 * together * columns * widths * load.number_bytes, "along: in and out"),
        ]
        if load.widens:
            terms.append(Term("estimate", "a block in 32 bits", block, "wide_copies"))
        tensors = max(at_once, min(together, 2) * min(rows, at_once)) * position * shape.working_width(load.seq_len)
    terms.append(
        Term(
            "estimate",
            "one block's tensors",
            max(tensors, logits),
            "cohort: rows at once through a block, whose input is a part of hidden_RLH; or logits of answers",
        )
    )
    return terms


def _exact(shape: ModelShape, load: Load, active_blocks: Sequence[int] | np.ndarray | None) -> list[Term]:
    """The most that any backward pass of any share holds: what the blocks not yet differentiated keep, and one block's
    own tensors; and room for the gradients of the largest share."""
    M, N = shape.num_blocks, load.num_clients
    active = np.full(N, M) if active_blocks is None or not len(active_blocks) else np.asarray(active_blocks)
    A_MN = active if active.ndim == 2 else np.arange(M)[:, None] < active
    plan = GradientPlan.of_load(shape, load, A_MN)
    drawn = min(load.num_perturbations, MOST_TOGETHER) * shape.trained_parameters
    numbers = min(drawn, PIECE_TOGETHER)
    bits = min(drawn * _RANDOM_BYTES, _MOST_RANDOM) + min(drawn, INDICES_TOGETHER) * _INDEX_BYTES
    bits += plan.kept_bits(load.num_perturbations * M * shape.trained_parameters, signs=load.signs)
    passes = _backward_passes(shape, load, plan, A_MN, numbers * load.number_bytes)
    terms = [
        Term("estimate", "gradients, and tensors kept", passes, "exact: pieces; directions side by side"),
        Term("estimate", "random bits", bits, "noise.SideBySide: and the indices that NumPy makes of them"),
    ]
    if load.widens:
        wide = M * shape.trained_parameters * load.number_bytes
        terms.append(Term("estimate", "all blocks in 32 bits", wide, "wide_copies: all are in use"))
    return terms


def _backward_passes(shape: ModelShape, load: Load, plan: GradientPlan, A_MN: np.ndarray, directions: int) -> int:
    """``directions``: bytes of those side by side, which are drawn when a block's own tensors are gone."""
    M = shape.num_blocks
    # Of the last block only its input, the norm of it, and keys and values are computed at every position.
    last = 2 * shape.hidden + 2 * shape.key_value
    kept_width, backward = shape.kept(load.seq_len), shape.exact_backward_width
    if shape.adapter_parameters:  # by autograd
        kept_width, backward = shape.kept_width, shape.backward_width
    most = written = 0
    for share in plan.shares:
        parts = [part for n in share for part in plan.parts(n, load.client_rows, load.seq_len)]
        for piece in plan.pieces(parts):
            active_MC = A_MN[:, sorted({part.client for part in piece})]
            first = int(active_MC.any(axis=1).argmax()) if active_MC.any() else M
            rows = sum(part.num_rows for part in piece)
            state = load.number_bytes * load.seq_len * rows
            logits = load.answers.logit_bytes(rows, shape.vocabulary, shape.embedding)
            for m in range(M - 1, min(first, M - 1) - 1, -1):
                kept = state * (max(0, min(m + 1, M - 1) - first) * kept_width + last * (m == M - 1))
                working = max(2 * state * shape.hidden, logits) if m == M - 1 else state * backward
                # A table of gradients takes memory when they are written; the next share's is the same memory.
                gradients = min(plan.held, written + shape.trained_parameters * int(active_MC[m:].sum()))
                most = max(most, kept + max(working, directions) + gradients * load.number_bytes)
            written += shape.trained_parameters * int(active_MC.sum())
    return most


def read_terms(shape: ModelShape, load: Load, rows: int) -> list[Term]:
    """States where a token of an answer is predicted; of label words of one token they are too few to count."""
    if load.answers == LABEL_WORDS:
        return []
    states = load.answers.states(rows) * shape.hidden * load.number_bytes
    return [Term("estimate", "states where answers are read", states, "cohort: final_R")]


def noise_term(shape: ModelShape, phase: Literal["estimate", "update"]) -> Term:
    numbers = min(shape.trained_parameters, _NOISE_NUMBERS)
    return Term(phase, "noise of a piece", numbers * _NOISE_BYTES, "engine.directions: drawn in pieces")


def _backward(shape: ModelShape, load: Load) -> list[Term]:
    """FedIT's pass, at whichever of its two ends holds more: all blocks' tensors and hardly a gradient yet, or one
    block's tensors and all gradients."""
    block = shape.trained_parameters * load.number_bytes
    blocks = shape.num_blocks * block
    rows = min(load.rows, load.max_rows or load.rows)
    position = load.number_bytes * load.seq_len * rows
    # Of the last block only its input, the norm of it, and keys and values are computed at every position.
    last = 2 * shape.hidden + 2 * shape.key_value
    before_last = (shape.num_blocks - 1) * shape.saved_width
    at_start = position * before_last + max(
        position * (last + 2 * shape.hidden), position * shape.backward_width + block
    )
    at_end = position * (shape.saved_width + shape.backward_width) + blocks
    added = blocks + block  # one block's gradients side by side
    return [
        Term("estimate", "token ids", 2 * load.rows * load.seq_len * TOKEN_BYTES, "the batch, and joined"),
        Term("estimate", "sums of the gradients", blocks, "first_order: sum_M"),
        Term("estimate", "tensors kept, and gradients", max(at_start, at_end, added), "first_order: one pass"),
    ]
