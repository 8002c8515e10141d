"""All settings of a fine-tuning run, checked before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zorba_core.engine.direction_kinds import DIRECTIONS
from zorba_core.engine.estimators.registry import ESTIMATORS
from zorba_core.errors import InvalidInputError
from zorba_core.fields import check, setting
from zorba_core.planning.lora import Lora
from zorba_core.planning.methods import METHODS, method_facts

if TYPE_CHECKING:
    import torch

DTYPES = {
    "float32": "weights and arithmetic in 32 bits",
    "float64": "in 64, for comparisons",
}
INACTIVE = ("frozen", "dropped")
TRAINED = {"blocks": "the blocks' own weights", "lora": "small adapters beside them (LoRA)"}
SCHEDULES = ("constant", "cosine", "linear")
PRECISIONS = ("highest", "bf16", "tf32")
MAX_RANK = 2**10
_LORA_RANK = 8
MAX_SEEDS = 2**20  # this limit and those below are beyond any use, and no product of them overflows


@dataclass(frozen=True)
class TrainSettings:
    """One run of federated fine-tuning. Importing it loads no torch: the command makes its options of these fields.

    ``num_perturbations`` is always a number once the object is made: a method's own default where none was given. So
    ``dataclasses.replace(settings, method=...)`` keeps the other method's; :meth:`for_method` takes the new one's.

    Raises:
        InvalidInputError: a value out of range, or two that contradict each other.
    """

    method: str = setting("zorba", "{choices}.", choices=METHODS.meanings)
    rounds: int = setting(150, "rounds.", symbol="T", at_least=1, at_most=10**8)
    lr: float = setting(1e-2, "Learning rate.", above=0)
    schedule: str = setting("constant", "Of the learning rate over the rounds: {choices}.", choices=lambda: SCHEDULES)
    warmup: int = setting(0, "Rounds over which the learning rate rises to --lr.", at_least=0, at_most=10**8)
    mu: float = setting(1e-3, "Length of a finite difference, in units of the direction.", at_least=1e-30)
    num_perturbations: int | None = setting(
        None,
        "directions a round; default: the paper's, 10 for zorba, 1 for decomfl and fedzo.",
        symbol="Q",
        at_most=MAX_SEEDS,
        option="perturbations",
    )
    num_seeds: int = setting(
        4096, "shared seeds that the directions are drawn from.", symbol="P", at_least=1, at_most=MAX_SEEDS
    )
    batch_size: int = setting(8, "rows a client and round.", symbol="B", at_least=1, at_most=10**6)
    seq_len: int = setting(64, "longest prompt, in tokens.", symbol="L", at_least=1, at_most=10**6)
    train: str = setting("blocks", "What is trained. {choices}.", choices=lambda: TRAINED)
    lora_rank: int = setting(_LORA_RANK, "Rank of the adapters of --train lora.", at_least=1, at_most=MAX_RANK)
    lora_alpha: float | None = setting(
        None, "Their weight is alpha / rank; default: twice the rank.", above=0, at_most=10**6
    )
    lora_targets: str = setting(
        "", "Linear layers with an adapter, such as q_proj,v_proj, or all; default: those of queries and values."
    )
    adapter: str = setting("", "Folder of saved adapters to begin from; default: new ones, which change nothing yet.")
    direction: str = setting("gaussian", "{choices}.", choices=DIRECTIONS.meanings)
    rank: int = setting(
        1, "Of low-rank directions: products of two vectors for each matrix.", symbol="r", at_least=1, at_most=MAX_RANK
    )
    estimator: str = setting("cohort", "How scalars are computed. {choices}.", choices=ESTIMATORS.meanings)
    inactive: str = setting(
        "frozen", "Blocks a client does not activate: frozen, or dropped (zero).", choices=lambda: INACTIVE
    )
    participation: float = setting(1.0, "Share of the clients that take part in a round.", above=0, at_most=1)
    outlier_ratio: float = setting(
        100.0,
        "Refuse scalars that many times larger than the median client's.",
        above=1,
        wrong="a client is compared with the median one, so give more than 1",
    )
    seed: int = setting(
        0, "Of the fleet if one is drawn, the division of rows, batches and directions.", at_least=0, at_most=2**60
    )
    eval_every: int = setting(
        10, "Rounds between evaluations.", at_least=1, at_most=10**9
    )  # the last round is always evaluated
    eval_rows: int | None = setting(
        None, "Evaluate on that many fixed random rows; default: all.", at_least=1, at_most=10**9
    )
    target: float | None = setting(0.75, "Accuracy whose first reaching is recorded.", above=0, at_most=1)
    stop_at_target: bool = setting(False, "End at the first evaluation that reaches it.")
    dtype: str = setting("float32", "{choices}.", choices=lambda: DTYPES)
    precision: str = setting(
        "highest", "Of matrix products: highest, bf16, or tf32 (cuda).", choices=lambda: PRECISIONS
    )
    device: str = setting("cpu", "{choices}.", choices=lambda: ("cpu", "cuda"), wrong="choose cpu or cuda")
    # Two threads on a busy two-core machine were 40 times slower for a small model.
    threads: int = setting(1, "CPU threads. More are slower for a small model.", at_least=1, at_most=1024)

    def __post_init__(self) -> None:
        facts = method_facts(self.method)
        if self.num_perturbations is None:
            object.__setattr__(self, "num_perturbations", facts.default_directions)
        check(self)
        if facts.first_order and self.num_perturbations != 0:
            raise InvalidInputError(
                f"num_perturbations is {self.num_perturbations} and {self.method} takes the gradient: leave it out"
            )
        estimator = ESTIMATORS[self.estimator]
        if facts.first_order and estimator.exact:
            raise InvalidInputError(
                f"estimator is {estimator.name} and {self.method} takes the gradient; use cohort or reference"
            )
        if not facts.first_order and self.num_perturbations < 1:
            raise InvalidInputError(f"num_perturbations is {self.num_perturbations}; it must be at least 1")
        if self.rank != 1 and not DIRECTIONS[self.direction].low_rank:
            raise InvalidInputError(
                f"rank is {self.rank} and the direction is {self.direction}, which has none; leave it out, or use "
                "direction low-rank"
            )
        of_adapters = (self.lora_rank, self.lora_alpha, self.lora_targets, self.adapter)
        if self.train != "lora" and of_adapters != (_LORA_RANK, None, "", ""):
            raise InvalidInputError(
                "lora_rank, lora_alpha, lora_targets and adapter are about adapters, and the blocks' own weights are "
                "trained; leave them out, or use train lora"
            )
        if self.num_perturbations > self.num_seeds:
            raise InvalidInputError(
                f"num_perturbations is {self.num_perturbations} and num_seeds {self.num_seeds}: a round draws its "
                "directions from the shared seeds without repeats; give more seeds or fewer perturbations"
            )
        if self.stop_at_target and self.target is None:
            raise InvalidInputError("stop_at_target needs a target accuracy; give one")
        if self.precision == "tf32" and self.device != "cuda":
            raise InvalidInputError(
                f"precision is 'tf32', which CUDA devices have, and device is {self.device!r}; use bf16"
            )
        if self.precision != "highest" and self.dtype == "float64":
            raise InvalidInputError(
                f"precision is {self.precision!r}, which rounds float32 products, and dtype is {self.dtype!r}; "
                "leave one of them out"
            )
        if self.device == "cuda":
            self._check_device()

    def _check_device(self) -> None:
        import torch

        from zorba_core.engine.precision import check_capability

        if not torch.cuda.is_available():
            raise InvalidInputError("device is 'cuda' and PyTorch sees no CUDA device here; use cpu")
        if self.precision != "highest":
            check_capability(self.precision, torch.cuda.get_device_capability())

    def for_method(self, method: str, num_perturbations: int | None = None) -> TrainSettings:
        """The same settings for another method, with its own number of directions unless one is given."""
        return replace(self, method=method, num_perturbations=num_perturbations)

    @property
    def lora(self) -> Lora | None:
        """The adapters that are trained, if any."""
        if self.train != "lora":
            return None
        targets = tuple(target.strip() for target in self.lora_targets.split(",") if target.strip())
        return Lora(self.lora_rank, self.lora_alpha or 2.0 * self.lora_rank, targets)

    def without_adapters(self) -> TrainSettings:
        """The same settings for a model whose adapters are merged."""
        return replace(self, train="blocks", lora_rank=_LORA_RANK, lora_alpha=None, lora_targets="", adapter="")

    def evaluates_after(self, round_index: int) -> bool:
        return round_index % self.eval_every == 0 or round_index == self.rounds

    @property
    def torch_dtype(self) -> torch.dtype:
        import torch

        return getattr(torch, self.dtype)
