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
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from zorba_core.errors import InvalidInputError
from zorba_core.planning.answers import LABEL_WORDS, AnswerShape
from zorba_core.planning.gradient_plan import GradientPlan
from zorba_core.planning.memory import DTYPE_BYTES
from zorba_core.planning.shapes import ModelShape

Order = Literal["in-memory", "streamed"]
LEAST_RESIDENT = 2  # the block at work, and the next one, which is read meanwhile
EVALUATION_ROWS = 64  # engine.evaluation.BATCH_SIZE

# Positions that go through a block at once on a CPU: engine.estimators.cohort.rows_at_once.
_PIECE_NUMBERS, _LEAST_POSITIONS = 2**17, 512
# Numbers of a direction drawn at a time (engine.directions), at 2 bytes of random bits, 4 of the number drawn.
_NOISE_NUMBERS, _NOISE_BYTES = 2**17, 6
_LEAST_WIDTH_ALONG = 256  # engine.along.LEAST_WIDTH_CPU
_TOKEN_BYTES = 8
_DIRECTIONS_AT_ONCE = 8  # of exact scalars
_LEAST_COLUMNS = 2  # engine.along
_FORWARD_MODE_STATES = 2  # each tensor and its derivative


@dataclass(frozen=True)
class Term:
    """A part of the memory: when it is held, what it is, how much, and where in the engine it comes from."""

    phase: Literal["always", "estimate", "update", "evaluate"]
    name: str
    num_bytes: int
    source: str


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


@dataclass(frozen=True)
class Load:
    """What a process does in a round.

    Raises:
        InvalidInputError: a number below 1, or an unknown dtype.
    """

    batch_size: int  # B
    seq_len: int  # L: the longest row
    num_perturbations: int  # Q
    dtype: str = "float32"
    num_clients: int = 1  # that take part in the round in this process
    estimator: str = "cohort"
    first_order: bool = False  # FedIT: one backward pass
    max_rows: int | None = None
    label_words: int = 4
    answers: AnswerShape = LABEL_WORDS
    rank: int | None = None  # of low-rank directions; None: of another kind

    def __post_init__(self) -> None:
        for name in ("batch_size", "seq_len", "num_clients", "label_words"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.dtype not in DTYPE_BYTES:
            raise InvalidInputError(f"unknown dtype {self.dtype!r}; choose one of {', '.join(DTYPE_BYTES)}")

    @property
    def rows(self) -> int:
        """R."""
        return self.client_rows * self.num_clients

    @property
    def client_rows(self) -> int:
        """Of one client: answers of several tokens, and options, take several rows an example."""
        return self.batch_size * self.answers.rows

    @property
    def number_bytes(self) -> int:
        """Of what is computed: weights of 16 bits are computed with in 32 (engine.wide_copies)."""
        return max(DTYPE_BYTES[self.dtype], DTYPE_BYTES["float32"])

    @property
    def kept_bytes(self) -> int:
        """Of a weight as it is kept."""
        return DTYPE_BYTES[self.dtype]

    @property
    def widens(self) -> bool:
        """Is a block's weight copied to 32 bits while it is computed with?"""
        return self.kept_bytes < self.number_bytes

    def rows_at_once(self, hidden: int) -> int:
        """Rows of a cohort through a block together, on a CPU."""
        return min(self.rows, self._most_rows(hidden))

    def _most_rows(self, hidden: int) -> int:
        positions = max(_PIECE_NUMBERS // hidden, _LEAST_POSITIONS)
        at_once = max(1, positions // self.seq_len)
        return min(at_once, self.max_rows or at_once)

    def directions_at_once(self, hidden: int) -> int | None:
        """Low-rank directions that share a batch where no weight is moved; None where weights are."""
        if self.rank is None or hidden < _LEAST_WIDTH_ALONG:
            return None
        return max(1, self._most_rows(hidden) // self.rows)


def footprint(
    shape: ModelShape,
    load: Load,
    *,
    active_blocks: Sequence[int] | None = None,
    resident_blocks: int | None = None,
    evaluates: bool = False,
) -> Footprint:
    """The terms of one process: a client (``num_clients=1``), or a simulation of many.

    Args:
        active_blocks: of each client; default all M. Only the reference estimator's memory depends on it.
        resident_blocks: None holds the model in memory; a number streams it block after block and keeps so many blocks.
        evaluates: also evaluates, as ``zorba train`` does and a client of a federation does not.

    Raises:
        InvalidInputError: fewer than two resident blocks, more than the model has, or streaming with an estimator that
            needs every block at once.
    """
    if load.answers.beside:
        answers = replace(load.answers, beside=0)
        load = replace(load, seq_len=load.seq_len + load.answers.beside, answers=answers)
    if resident_blocks is None:
        terms = [Term("always", "parameters", shape.parameters * load.kept_bytes, "M D and what is not in blocks")]
        terms += _estimate(shape, load, active_blocks)
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


def _estimate(shape: ModelShape, load: Load, active_blocks: Sequence[int] | None) -> list[Term]:
    block, model_blocks = shape.trained_parameters * load.number_bytes, shape.num_blocks
    position = load.number_bytes * load.seq_len  # bytes of one number a position, for one row
    if load.first_order:
        return _backward(shape, load)
    noise = _noise(shape, "estimate")
    tokens = Term("estimate", "token ids", 2 * load.rows * load.seq_len * _TOKEN_BYTES, "the batch, and joined")
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
        scores = shape.heads * load.seq_len * load.number_bytes * load.client_rows * load.seq_len
        plain = max(load.client_rows * position * shape.working_width(load.seq_len), logits)
        return [
            tokens,
            directions,
            Term("estimate", "one block's tensors and derivatives", _FORWARD_MODE_STATES * plain, "jvp: dual numbers"),
            Term("estimate", "attention scores", 2 * _FORWARD_MODE_STATES * scores, "jvp: plain attention"),
            noise,
        ]
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
        *_read(shape, load, rows),
        Term("estimate", "hidden states", state, "cohort: hidden_RLH"),
        Term("estimate", "states before the first active block", state, "cohort: copies"),
    ]
    if together is None:
        tensors = at_once * position * (shape.working_width(load.seq_len) - shape.hidden)
        what = "a block in 32 bits" if load.widens else "weights put aside"
        terms.append(Term("estimate", what, block, "wide_copies" if load.widens else "cohort: moved"))
    else:
        columns = max(_LEAST_COLUMNS, load.rank + 1)
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


def _exact(shape: ModelShape, load: Load, active_blocks: Sequence[int] | None) -> list[Term]:
    """At whichever end of a backward pass holds more: all blocks' tensors beside the gradients of the clients before,
    or one block's tensors beside all gradients of a share."""
    M, N = shape.num_blocks, load.num_clients
    held_N = np.full(N, M) if active_blocks is None or not len(active_blocks) else np.asarray(active_blocks)
    plan = GradientPlan.of(
        [shape.trained_parameters] * M,
        shape.hidden,
        load.number_bytes,
        np.full((N, 2), (load.client_rows, load.seq_len)),
        np.arange(M)[:, None] < held_N,
        max_rows=load.max_rows,
    )
    block = shape.trained_parameters * load.number_bytes
    rows = min(plan.rows_at_once(load.client_rows, load.seq_len), load.client_rows * max(map(len, plan.shares)))
    position = load.number_bytes * load.seq_len * rows
    logits = load.answers.logit_bytes(rows, shape.vocabulary, shape.embedding)
    last = 2 * shape.hidden + 2 * shape.key_value  # as of _backward
    at_start = position * ((M - 1) * shape.saved_width + last) + max(position * 2 * shape.hidden, logits)
    at_end = position * (shape.saved_width + shape.backward_width)
    # The largest share in pieces: before the last whole one, and before what is left over.
    clients, of_piece = max(map(len, plan.shares)), max(1, rows // load.client_rows)
    pieces, over = divmod(clients, of_piece)
    gradient = plan.held * load.number_bytes / clients
    both = int(
        max(
            max(pieces - 1, 0) * of_piece * gradient + at_start,
            pieces * of_piece * gradient + at_start * over / of_piece,
            clients * gradient + at_end,
        )
    )
    terms = [
        Term("estimate", "gradients of a share, and tensors kept", both, "exact: GradientPlan"),
        Term(
            "estimate",
            "a piece of directions",
            min(load.num_perturbations, _DIRECTIONS_AT_ONCE) * min(block, _NOISE_NUMBERS * load.number_bytes),
            "directions.buffer",
        ),
    ]
    if load.widens:
        terms.append(Term("estimate", "all blocks in 32 bits", M * block, "wide_copies: all are in use"))
    return terms


def _read(shape: ModelShape, load: Load, rows: int) -> list[Term]:
    """States where a token of an answer is predicted; of label words of one token they are too few to count."""
    if load.answers == LABEL_WORDS:
        return []
    states = load.answers.states(rows) * shape.hidden * load.number_bytes
    return [Term("estimate", "states where answers are read", states, "cohort: final_R")]


def _noise(shape: ModelShape, phase: Literal["estimate", "update"]) -> Term:
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
        Term("estimate", "token ids", 2 * load.rows * load.seq_len * _TOKEN_BYTES, "the batch, and joined"),
        Term("estimate", "sums of the gradients", blocks, "first_order: sum_M"),
        Term("estimate", "tensors kept, and gradients", max(at_start, at_end, added), "first_order: one pass"),
    ]


def _update(shape: ModelShape, load: Load) -> list[Term]:
    if load.first_order:
        return []
    block = shape.trained_parameters * load.number_bytes
    return [
        Term("update", "one block's step", block, "aggregation: shared_step"),
        _noise(shape, "update"),
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
        Term("always", "token ids", 2 * rows * load.seq_len * _TOKEN_BYTES, "the batch, and joined"),
        Term("always", "embedding rows in use", words * shape.embedding * load.number_bytes, "of the rows' words"),
        *_read(shape, load, rows),
        Term("always", "head rows", _head_bytes(shape, load), "of the label words, float64; or the whole head"),
        Term("estimate", "hidden states", states * rows * position * shape.hidden, "the base's and Q directions'"),
        Term("estimate", "weights put aside", block, "while they are perturbed"),
        Term("estimate", "one block's tensors", max(tensors, logits), "rows at once through a block, or logits"),
        _noise(shape, "estimate"),
        Term("update", "one block's step", block, "aggregation: shared_step, when the block is next visited"),
        _noise(shape, "update"),
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
