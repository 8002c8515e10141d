"""What a client or process does in a round: what its memory and its seconds here follow from. No torch in here."""

from __future__ import annotations

from dataclasses import dataclass

from zorba_core.errors import InvalidInputError
from zorba_core.planning.answers import LABEL_WORDS, AnswerShape
from zorba_core.planning.memory import DTYPE_BYTES

# Positions that go through a block at once on a CPU: engine.estimators.cohort.rows_at_once.
_PIECE_NUMBERS, _LEAST_POSITIONS = 2**17, 512
# Along low-rank directions (engine.along): the least width of a block, on a CPU, and columns of a narrow product.
LEAST_WIDTH_ALONG, LEAST_COLUMNS = 256, 2


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
    signs: bool = False  # are all numbers of a direction -1 or +1?

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
        if self.rank is None or hidden < LEAST_WIDTH_ALONG:
            return None
        return max(1, self._most_rows(hidden) // self.rows)
