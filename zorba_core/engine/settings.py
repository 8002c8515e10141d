"""Everything a fine-tuning run is told, checked before anything is loaded."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import torch

from zorba_core.engine.directions import DIRECTION_KINDS, DirectionKind
from zorba_core.engine.network import Inactive
from zorba_core.engine.precision import PRECISIONS, check_capability
from zorba_core.errors import InvalidInputError, in_short
from zorba_core.planning.methods import method_facts

DTYPES = {"float32": torch.float32, "float64": torch.float64}
INACTIVE = ("frozen", "dropped")
ESTIMATOR_NAMES = ("cohort", "reference", "jvp")
MAX_SEEDS = 2**20
# Beyond any use, and small enough that no product of them overflows.
_MOST = {
    "rounds": 10**8, "num_perturbations": MAX_SEEDS, "batch_size": 10**6, "seq_len": 10**6, "max_rows": 10**9,
    "seed": 2**60, "eval_every": 10**9, "eval_rows": 10**9, "threads": 1024,
}  # fmt: skip


@dataclass(frozen=True)
class TrainSettings:
    """One run of federated fine-tuning. The paper's symbols stand behind the fields.

    ``num_perturbations`` is always a number once the object is made: a method's own default where none was given. So
    ``dataclasses.replace(settings, method=...)`` keeps the other method's; :meth:`for_method` takes the new one's.

    Raises:
        InvalidInputError: a value out of range, or two that contradict each other.
    """

    method: str = "zorba"  # see zorba_core.planning.methods
    rounds: int = 150  # T
    lr: float = 1e-2  # eta
    mu: float = 1e-3  # size of the step that a finite difference takes, in units of the direction
    num_perturbations: int | None = None  # Q directions a round; default: the paper's for the method, FedIT has none
    num_seeds: int = 4096  # P shared seeds that the Q are drawn from
    batch_size: int = 8  # B rows a client and round
    seq_len: int = 64  # L: longer prompts lose the end of their text
    direction: DirectionKind = "gaussian"
    estimator: str = "cohort"  # how rho is computed: see zorba_core.engine.estimators.registry
    max_rows: int | None = None  # of the cohort, through a block at once; None: what suits the device
    inactive: Inactive = "frozen"  # what a block does that a client does not activate
    participation: float = 1.0  # share of the clients that take part in a round, drawn afresh each round
    outlier_ratio: float = 100.0  # a client whose scalars exceed the median client's by more is refused for the round
    seed: int = 0  # of everything random in the run but the base model and the allocation
    eval_every: int = 10  # rounds between evaluations; the last round is always evaluated
    eval_rows: int | None = None  # a fixed random subset of the evaluation split; None: all of it
    target: float | None = 0.75  # accuracy whose first reaching is recorded
    stop_at_target: bool = False  # end the run at the first evaluation that reaches the target
    dtype: str = "float32"
    precision: str = "highest"  # of matrix products in training's forward passes: see zorba_core.engine.precision
    device: str = "cpu"
    threads: int = 1  # of PyTorch; two threads on a busy two-core machine were 40 times slower for a small model

    def __post_init__(self) -> None:
        facts = method_facts(self.method)
        if self.num_perturbations is None:
            object.__setattr__(self, "num_perturbations", facts.default_directions)
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise InvalidInputError(f"{field.name} is {value}; it must be a finite number")
        if facts.first_order and self.num_perturbations != 0:
            raise InvalidInputError(
                f"num_perturbations is {self.num_perturbations} and {self.method} takes the gradient: leave it out"
            )
        if facts.first_order and self.estimator == "jvp":
            raise InvalidInputError(f"estimator is jvp and {self.method} takes the gradient; use cohort or reference")
        if not facts.first_order and self.num_perturbations < 1:
            raise InvalidInputError(f"num_perturbations is {self.num_perturbations}; it must be at least 1")
        for name in ("rounds", "num_seeds", "batch_size", "seq_len", "eval_every", "threads"):
            if getattr(self, name) < 1:
                raise InvalidInputError(f"{name} is {getattr(self, name)}; it must be at least 1")
        for name, most in _MOST.items():
            value = getattr(self, name)
            if value is not None and value > most:
                raise InvalidInputError(f"{name} is {in_short(value)}; it must be at most {most}")
        for name in ("lr", "mu"):
            if getattr(self, name) <= 0:
                raise InvalidInputError(f"{name} is {getattr(self, name)}; it must be greater than 0")
        if self.max_rows is not None and self.max_rows < 1:
            raise InvalidInputError(f"max_rows is {self.max_rows}; it must be at least 1, or left out")
        if self.max_rows is not None and self.estimator != "cohort":
            raise InvalidInputError(
                f"max_rows bounds a cohort's rows and the estimator is {self.estimator}; leave it out, or use cohort"
            )
        if not 0 < self.participation <= 1:
            raise InvalidInputError(
                f"participation is {self.participation}; it is a share of the clients, above 0 and at most 1"
            )
        if self.outlier_ratio <= 1:
            raise InvalidInputError(
                f"outlier_ratio is {self.outlier_ratio}; a client is compared with the median one, so give more than 1"
            )
        if self.seed < 0:
            raise InvalidInputError(f"seed is {self.seed}; it must be at least 0")
        if self.num_seeds > MAX_SEEDS:
            raise InvalidInputError(f"num_seeds is {self.num_seeds}; at most {MAX_SEEDS} are shared with the clients")
        if self.num_perturbations > self.num_seeds:
            raise InvalidInputError(
                f"num_perturbations is {self.num_perturbations} and num_seeds {self.num_seeds}: a round draws its "
                "directions from the shared seeds without repeats; give more seeds or fewer perturbations"
            )
        if self.eval_rows is not None and self.eval_rows < 1:
            raise InvalidInputError(f"eval_rows is {self.eval_rows}; it must be at least 1, or left out for all rows")
        if self.target is not None and not 0 < self.target <= 1:
            raise InvalidInputError(f"target is {self.target}; an accuracy lies above 0 and at most at 1")
        if self.stop_at_target and self.target is None:
            raise InvalidInputError("stop_at_target needs a target accuracy; give one")
        for name, value, known in (
            ("direction", self.direction, DIRECTION_KINDS),
            ("estimator", self.estimator, ESTIMATOR_NAMES),
            ("inactive", self.inactive, INACTIVE),
            ("dtype", self.dtype, tuple(DTYPES)),
            ("precision", self.precision, PRECISIONS),
        ):
            if value not in known:
                raise InvalidInputError(f"{name} is {value!r}; choose one of {', '.join(known)}")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise InvalidInputError("device is 'cuda' and PyTorch sees no CUDA device here; use cpu")
        if self.precision == "tf32" and self.device != "cuda":
            raise InvalidInputError(
                f"precision is 'tf32', which CUDA devices have, and device is {self.device!r}; use bf16"
            )
        if self.precision != "highest" and self.dtype != "float32":
            raise InvalidInputError(
                f"precision is {self.precision!r}, which rounds float32 products, and dtype is {self.dtype!r}; "
                "leave one of them out"
            )
        if self.device not in ("cpu", "cuda"):
            raise InvalidInputError(f"device is {self.device!r}; choose cpu or cuda")
        if self.device == "cuda" and self.precision != "highest":
            check_capability(self.precision, torch.cuda.get_device_capability())

    def for_method(self, method: str, num_perturbations: int | None = None) -> TrainSettings:
        """The same settings for another method, with its own number of directions unless one is given."""
        return replace(self, method=method, num_perturbations=num_perturbations)

    @property
    def torch_dtype(self) -> torch.dtype:
        return DTYPES[self.dtype]
