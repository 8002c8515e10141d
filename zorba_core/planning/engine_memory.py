"""The memory that this engine needs, derived term by term. The paper's psi stands beside it in ``planning.memory``.

psi charges (alpha + 3K + 1) B L H numbers for every activated block. Forward passes keep nothing of a block once the
next has its input, so here the number of activated blocks costs time and no memory, with one exception: the reference
estimator puts every activated block aside at once.

The parameters stay for the whole run. Beside them stand, one after another, estimating, updating and evaluating; the
peak is the largest of the three. No term is fitted to a measurement: widths come from the order of operations within a
block (:mod:`zorba_core.planning.shapes`), the rest from the engine's own code, which each term names. What the
libraries take by themselves is not in here: the interpreter with PyTorch, a kernel's own buffers, an allocator's holes.

Shapes: M blocks of D parameters, N clients, B rows of a client, R rows of all, L positions, H hidden size,
Q directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zorba_core.errors import InvalidInputError
from zorba_core.planning.engine_load import Load
from zorba_core.planning.estimate_terms import TOKEN_BYTES, Term, estimate_terms, noise_term, read_terms
from zorba_core.planning.shapes import ModelShape

LEAST_RESIDENT = 2  # the block at work, and the next one, which is read meanwhile
EVALUATION_ROWS = 64  # that go through the blocks together


@dataclass(frozen=True)
class Footprint:
    """All terms of a process or client."""

    terms: tuple[Term, ...]

    def of(self, phase: str) -> int:
        return sum(term.num_bytes for term in self.terms if term.phase == phase)

    @property
    def always(self) -> int:
        return self.of("always")

    @property
    def above(self) -> int:
        """The largest of what estimating, updating and evaluating hold beside what is always held."""
        return max(self.of("estimate"), self.of("update"), self.of("evaluate"))

    @property
    def peak(self) -> int:
        return self.always + self.above

    def describe(self) -> dict[str, object]:
        terms = [
            {"phase": term.phase, "name": term.name, "bytes": term.num_bytes, "source": term.source}
            for term in self.terms
        ]
        return {"peak_bytes": self.peak, "terms": terms}


def footprint(
    shape: ModelShape,
    load: Load,
    *,
    active_blocks: Sequence[int] | np.ndarray | None = None,
    resident_blocks: int | None = None,
    evaluates: bool = False,
) -> Footprint:
    """The terms of one process: a client (``num_clients=1``), or a simulation of many.

    Args:
        active_blocks: of each client, how many from the first on, or which, (M, N); default all M. The memory of the
            reference estimator (their number alone) and of exact scalars depends on it.
        resident_blocks: None holds the model in memory; a number streams it block after block and keeps so many blocks.
        evaluates: also evaluates, as ``zorba train`` does and a client of a federation does not.

    Raises:
        InvalidInputError: fewer than two resident blocks, more than the model has, or streaming with an estimator that
            needs every block at once.
    """
    if resident_blocks is None:
        terms = [Term("always", "parameters", shape.parameters * load.kept_bytes, "M D and what is not in blocks")]
        terms += estimate_terms(shape, load, active_blocks)
        terms += _update(shape, load)
    else:
        terms = _streamed(shape, load, resident_blocks)
    if evaluates:
        rows = min(EVALUATION_ROWS, max(load.rows, EVALUATION_ROWS))
        evaluated = rows * load.seq_len * shape.working_width(load.seq_len) * load.number_bytes
        terms.append(Term("evaluate", "one block's tensors", evaluated, "engine.evaluation: 64 rows at once"))
        if load.widens:
            copy = shape.block_parameters * load.number_bytes
            terms.append(Term("evaluate", "a block in 32 bits", copy, "wide_copies: the block in use"))
    return Footprint(tuple(terms))


def _update(shape: ModelShape, load: Load) -> list[Term]:
    if load.first_order:
        return []
    block = shape.trained_parameters * load.number_bytes
    return [
        Term("update", "one block's step", block, "aggregation: shared_step"),
        noise_term(shape, "update"),
    ]


def _streamed(shape: ModelShape, load: Load, resident_blocks: int) -> list[Term]:
    """Block-major order: every block meets the hidden states of the base and of all directions before the next."""
    if load.widens:
        raise InvalidInputError("a streamed model is kept in 32 or 64 bits; use float32, or hold it in memory")
    if load.first_order or load.estimator != "cohort" or shape.adapter_parameters:
        what = "FedIT" if load.first_order else f"estimator {load.estimator}"
        what = "training adapters" if shape.adapter_parameters else what
        raise InvalidInputError(f"{what} needs every block at once and cannot be streamed; use cohort")
    if not LEAST_RESIDENT <= resident_blocks <= max(shape.num_blocks, LEAST_RESIDENT):
        raise InvalidInputError(
            f"resident blocks is {resident_blocks}; it must be from {LEAST_RESIDENT} (one at work, one being read) "
            f"to {shape.num_blocks}"
        )
    block = shape.block_parameters * load.number_bytes
    rows, position = load.rows, load.number_bytes * load.seq_len
    at_once = load.rows_at_once(shape.hidden)
    words = min(shape.vocabulary, rows * load.seq_len)
    states = load.num_perturbations + 1
    tensors = at_once * position * (shape.working_width(load.seq_len) - shape.hidden)
    logits = load.answers.logit_bytes(rows, shape.vocabulary, shape.embedding)
    return [
        Term("always", "resident blocks", resident_blocks * block, "the block at work, those read ahead or kept"),
        Term("always", "token ids", 2 * rows * load.seq_len * TOKEN_BYTES, "the batch, and joined"),
        Term("always", "embedding rows in use", words * shape.embedding * load.number_bytes, "of the rows' words"),
        *read_terms(shape, load, rows),
        Term("always", "head rows", _head_bytes(shape, load), "of the label words, float64; or the whole head"),
        Term("estimate", "hidden states", states * rows * position * shape.hidden, "the base's and Q directions'"),
        Term("estimate", "weights put aside", block, "while they are perturbed"),
        Term("estimate", "one block's tensors", max(tensors, logits), "rows at once through a block, or logits"),
        noise_term(shape, "estimate"),
        Term("update", "one block's step", block, "aggregation: shared_step, when the block is next visited"),
        noise_term(shape, "update"),
    ]


def _head_bytes(shape: ModelShape, load: Load) -> int:
    if load.answers.whole_vocabulary:
        return shape.vocabulary * shape.embedding * load.number_bytes
    return 2 * load.label_words * shape.embedding * 8


def most_resident_blocks(shape: ModelShape, load: Load, capacity_bytes: float) -> int | None:
    """How many blocks may stay in memory when streaming within ``capacity_bytes``; None where even two are too many."""
    least = footprint(shape, load, resident_blocks=LEAST_RESIDENT).peak
    if least > capacity_bytes:
        return None
    further = int((capacity_bytes - least) // (shape.block_parameters * load.number_bytes))
    return min(max(shape.num_blocks, LEAST_RESIDENT), LEAST_RESIDENT + further)
