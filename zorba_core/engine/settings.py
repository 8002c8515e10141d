"""All settings of a fine-tuning run, checked before anything is loaded."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from zorba_core.checked import Checked, OneOf
from zorba_core.engine.parts import AVERAGES, DIRECTIONS, ESTIMATORS, METHODS, method_facts
from zorba_core.errors import InvalidInputError

MAX_RANK = 2**10
LARGE, LARGE_ROUNDS, LARGE_DIRECTIONS, LARGE_CLIENTS = 20_000_000, 20, 800, 8
SMALL_DIRECTIONS = 200  # low-rank ones; the step of a small model is then as long as the gradient allows
_BY_METHOD: Any = None  # the default of a field that the method decides
MAX_SEEDS = 2**20  # small enough that no product with the other limits overflows


def is_large(num_parameters: int) -> bool:
    """Whether one random number for each parameter costs more than the forward passes of a round."""
    return num_parameters >= LARGE


def _has_bfloat16() -> bool:
    """Whether this processor multiplies in bfloat16 in hardware."""
    import torch

    return getattr(torch.cpu, "_is_avx512_bf16_supported", bool)()


class Settings(Checked, frozen=True):
    """The settings of one run. The import loads no torch, because the command builds its options from these fields.

    Raises:
        InvalidInputError: a value is out of range, or two values contradict each other.
    """

    method: Annotated[str, OneOf(METHODS.meanings)] = "zorba"
    """{choices}."""
    rounds: int = Field(default=150, ge=1, le=10**8)
    """Rounds, T."""
    lr: Annotated[float, Field(gt=0)] | Literal["auto"] = 1e-2
    """Learning rate, or auto: every round's expected step has the same length before the schedule."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Schedule of the learning rate over the rounds: {choices}."""
    calibration: Literal["none", "base", "batch"] = "none"
    """What the loss takes out of the label words' scores: none, as in the paper; base, the base model's own preference
    among them; batch, the preference that all rows of a client's batch share."""
    mu: float = Field(default=1e-3, ge=1e-30)
    """Length of a finite difference, in units of the direction."""
    directions: int = Field(default=_BY_METHOD, ge=0, le=MAX_SEEDS, validate_default=True)
    """Directions of each round, Q; default: as in the paper, 10 for zorba, 1 for decomfl and fedzo; zorba train has 800
    for a large model and 200 for own rows."""
    num_seeds: int = Field(default=4096, ge=1, le=MAX_SEEDS)
    """Shared seeds that the directions are drawn from, P."""
    batch_size: int = Field(default=8, ge=1, le=10**6)
    """Rows of each client in a round, B."""
    seq_len: int = Field(default=64, ge=1, le=10**6)
    """Longest prompt in tokens, L."""
    lora_rank: int = Field(default=0, ge=0, le=MAX_RANK)
    """Train LoRA adapters of this rank in place of the blocks' weights; 0: the blocks."""
    direction: Annotated[str, OneOf(DIRECTIONS.meanings)] = "gaussian"
    """{choices}."""
    estimator: Annotated[str, OneOf(ESTIMATORS.meanings)] = Field(default=_BY_METHOD, validate_default=True)
    """How a simulation computes scalars; default of zorba train: exact, for fedit cohort. {choices}."""
    rule: Annotated[str, OneOf(AVERAGES.meanings)] = "mean"
    """How the clients' scalars are averaged. {choices}."""
    trim: float = Field(default=0.2, ge=0, lt=0.5)
    """With rule trimmed: share cut off at each end, rounded up to whole clients."""
    inactive: Literal["frozen", "dropped"] = "frozen"
    """Blocks a client does not activate: frozen, or dropped (zero)."""
    participation: float = Field(default=1.0, gt=0, le=1)
    """Share of the clients that take part in a round."""
    seed: int = Field(default=0, ge=0, le=2**60)
    """Random seed for the fleet, the data split, the batches and the directions."""
    eval_every: int = Field(default=10, ge=1, le=10**9)
    """Rounds between evaluations. The last round is always evaluated."""
    eval_rows: int | None = Field(default=None, ge=1, le=10**9)
    """Evaluate on that many fixed random rows; default: all."""
    target: float | None = Field(default=None, gt=0, le=1)
    """Stop at the first evaluation with this accuracy."""
    precision: Literal["highest", "bf16", "tf32"] = "highest"
    """Precision of matrix products: highest, bf16, or tf32 (cuda)."""
    device: Literal["cpu", "cuda"] = "cpu"
    """{choices}."""

    @field_validator("directions", mode="before")
    @classmethod
    def _of_the_method(cls, directions: Any, info: ValidationInfo) -> Any:
        """The method's number, if none is given."""
        if directions is None and "method" in info.data:
            return method_facts(info.data["method"]).default_directions
        return directions

    @field_validator("estimator", mode="before")
    @classmethod
    def _fastest(cls, estimator: Any, info: ValidationInfo) -> Any:
        """The fastest estimator that is right for the method, if none is given."""
        if estimator is None and "method" in info.data:
            return "cohort" if method_facts(info.data["method"]).first_order else "exact"
        return estimator

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        facts = method_facts(self.method)
        if facts.first_order and self.directions != 0:
            raise InvalidInputError(f"directions is {self.directions}; {self.method} uses the gradient: leave it out")
        if facts.first_order and self.estimator != "cohort":
            raise InvalidInputError(f"estimator is {self.estimator} and {self.method} uses the gradient: leave it out")
        if facts.exchanges != "scalars" and self.rule != "mean":
            raise InvalidInputError(f"rule is {self.rule}; {self.method} exchanges {facts.exchanges}: leave it out")
        if not facts.first_order and self.directions < 1:
            raise InvalidInputError(f"directions is {self.directions}; it must be at least 1")
        if self.directions > self.num_seeds:
            raise InvalidInputError(
                f"directions is {self.directions} and num_seeds {self.num_seeds}: a round draws its "
                "directions from the shared seeds without repeats; give more seeds or fewer directions"
            )
        if self.calibration == "batch" and self.batch_size < 2:
            raise InvalidInputError(
                f"batch_size is {self.batch_size} and calibration batch takes out what the rows of a batch share: one "
                "row would have no gradient; use at least 2 rows, or calibration base"
            )
        if self.precision == "tf32" and self.device != "cuda":
            raise InvalidInputError(
                f"precision is 'tf32', which needs device 'cuda', and device is {self.device!r}; use bf16"
            )
        if self.device == "cuda":
            self._check_device()
        return self

    def _check_device(self) -> None:
        import torch

        from zorba_core.engine.precision import check_capability

        if not torch.cuda.is_available():
            raise InvalidInputError("device is 'cuda' and PyTorch sees no CUDA device here; use cpu")
        if self.precision != "highest":
            check_capability(self.precision, torch.cuda.get_device_capability())

    @classmethod
    def suited(cls, num_parameters: int, own_rows: bool = False, **given: Any) -> Self:
        """Settings with defaults for a model of ``num_parameters``. Given values that are not None replace them.

        In a large model random numbers cost most. Low-rank directions need few of them, so hundreds of directions cost
        little in a simulation, and the noise of the estimate no longer limits learning. A small model needs them for a
        user's own rows, of which it knows little. Both learn faster by the centred loss (``calibration`` batch). A
        large model's products are in bfloat16 if the processor has it, except for finite differences, whose errors
        would be too large.
        """
        given = {"lr": "auto"} | {name: value for name, value in given.items() if value is not None}
        facts = METHODS.get(given.get("method", "zorba"))
        large = is_large(num_parameters)
        if facts is None or not (large or own_rows):
            return cls(**given)
        exact = facts.first_order or given.get("estimator", "exact") == "exact"
        # Finite differences pay a forward pass for each direction, so they have few, and need more rounds.
        rounds = {"rounds": LARGE_ROUNDS if exact else 2 * LARGE_ROUNDS} if large else {}
        given = {**rounds, "schedule": "cosine", "calibration": "batch", **given}
        if facts.exchanges == "scalars":
            given.setdefault("direction", "low-rank")
            if given["direction"] == "low-rank" and exact:
                given.setdefault("directions", LARGE_DIRECTIONS if large else SMALL_DIRECTIONS)
        if large and exact and given.get("device", "cpu") == "cpu" and _has_bfloat16():
            given.setdefault("precision", "bf16")
        return cls(**given)

    def evaluates_after(self, round_index: int) -> bool:
        return round_index % self.eval_every == 0 or round_index == self.rounds
