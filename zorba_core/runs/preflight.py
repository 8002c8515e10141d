"""Preflight: before the first round, check that the settings can learn in the run's arithmetic.

Measured on the first round's batches of a few clients, along a few directions, in the run's dtype:

- ``perturbation``: the relative part of mu v that rounding removes when it is added to the weights.
- ``scalars``: the relative error of the finite differences against the exact directional derivatives of a backward
  pass; left out for a model whose derivatives cannot be computed, such as a mixture of experts. With a small mu,
  rounding of two nearly equal losses dominates; with a large mu, curvature. If the run takes exact scalars, the error
  is reported and never refused.
- ``products``: the relative error of the scalars due to ``precision``, if that is less than the dtype allows.
- ``update``: the relative part of a round's step that rounding removes.
- ``stride``: the length of a round's step relative to the weights that it moves.
- ``progress``: lr * rho^2, by which a round lowers the loss to first order, times max(rounds, 1000). Noise makes the
  true progress smaller, so this refuses hopeless settings and predicts nothing.

Each value has a limit far from good settings; a setting beyond it is refused with a remedy. FedZO is measured along
its clients' own directions, whose average is a shorter step. If a method transforms the averages, the plain averages
are measured. FedIT has no mu and no scalars: ``update``, ``stride`` and ``progress`` are those of the exact gradient.

Shapes: M blocks, N clients, Q directions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from zorba_core.allocation import Allocation
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.directions import Directions, directions_of
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.estimators.exact import estimate_exact
from zorba_core.engine.methods.fedit import mean_gradient
from zorba_core.engine.methods.fedzo import client_seeds, own_coefficients
from zorba_core.engine.methods.zorba import average_per_block
from zorba_core.engine.parts import ESTIMATORS, estimator_of, method_facts
from zorba_core.engine.randomness import stream
from zorba_core.engine.rate import length_of_step, rate_of_round, size_of_step
from zorba_core.engine.round import FederatedRows, Step, client_batch
from zorba_core.engine.rows import Rows
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError

_CLIENTS, _DIRECTIONS = 2, 4
PIECE = 2**22  # numbers of a block that are compared at a time
MOST_LOST = 0.5  # part of a perturbation or update that rounding may remove
MOST_SCALAR_ERROR = 0.9
MOST_STRIDE = 0.5
LEAST_PROGRESS_NATS = 0.01
_HORIZON = 1000  # rounds
_OTHER_MU = tuple(float(f"1e{power}") for power in range(-8, 2))  # tried if the given one fails


@dataclass(frozen=True)
class Check:
    """A measured value and its limit; ``finding`` and ``cure`` are sentences for a person."""

    name: str
    measured: float
    limit: float
    passed: bool
    finding: str
    cure: str


@dataclass(frozen=True)
class Differences:
    """The finite differences at the run's mu, which clients would send, compared with the exact scalars."""

    mu: float
    relative_error: float  # norm of the errors over norm of the exact scalars
    correlation: float

    @classmethod
    def between(cls, mu: float, estimated_NQ: np.ndarray, exact_NQ: np.ndarray) -> Differences:
        """Compare estimated with exact scalars, (N, Q)."""
        with np.errstate(invalid="ignore", divide="ignore"):
            correlation = float(np.corrcoef(estimated_NQ.ravel(), exact_NQ.ravel())[0, 1])
        return cls(mu, _relative_error(estimated_NQ, exact_NQ), correlation)

    def sentence(self) -> str:
        """One line, for a run that simulates with exact scalars."""
        return (
            f"exact scalars: finite differences at mu {self.mu:g}, which clients would send, differ from them by "
            f"{self.relative_error:.1%} here (correlation {self.correlation:.4f})"
        )


@dataclass(frozen=True)
class Preflight:
    """All checks of one setting. ``rho_rms`` is the root mean square of the exact scalars."""

    checks: tuple[Check, ...]
    rho_rms: float
    differences: Differences | None = None  # None if the method takes no scalars, or exact ones are not known

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that did not pass."""
        return tuple(check for check in self.checks if not check.passed)

    @property
    def findings(self) -> str:
        """The findings of the failed checks, in one line."""
        return "; ".join(check.finding for check in self.failed)

    def reason(self) -> str:
        """One line: why the setting is refused, and remedies."""
        cures = "; ".join(dict.fromkeys(check.cure for check in self.failed if check.cure))
        return f"these settings cannot learn: {self.findings}. Try: {cures}. To continue anyway: --force"

    def describe(self) -> dict[str, Any]:
        """The report for a run's config."""
        return {
            "rho_rms": self.rho_rms,
            "checks": [asdict(check) for check in self.checks],
            **({} if self.differences is None else {"finite_differences": asdict(self.differences)}),
        }


@torch.no_grad()
def preflight(network: Blocks, allocation: Allocation, rows: FederatedRows, settings: Settings) -> Preflight:
    """Measure a setting. The network's weights do not change by a bit."""
    clients = np.unique(np.linspace(0, allocation.num_clients - 1, _CLIENTS).round().astype(int))
    A_MN = allocation.A_MN[:, clients]
    batches_N = [client_batch(rows, settings, 1, int(n), network.device) for n in clients]  # those of round 1
    facts = method_facts(settings.method)
    if facts.first_order:
        return _of_gradient(network, batches_N, settings)
    seeds_Q = stream("preflight", settings.seed).integers(2**32, size=_DIRECTIONS, dtype=np.uint32)
    directions = directions_of(network, settings)
    probe = (network, batches_N, A_MN, seeds_Q, directions)
    exact = ESTIMATORS[settings.estimator].exact
    finite = partial(estimate_cohort, mu=settings.mu, inactive=settings.inactive) if exact else estimator_of(settings)
    with network.at_precision("highest"):  # bfloat16 would round away the difference of two losses
        exact_NQ = _exact_scalars(probe, settings, needed=exact)
        finite_NQ = finite(*probe).rho_NQ  # the scalars that real clients would send
    checks = []
    if settings.precision != "highest":
        precise_NQ = exact_NQ if exact and exact_NQ is not None else finite_NQ
        own_NQ = estimator_of(settings)(*probe).rho_NQ
        checks.append(_product_check(_relative_error(own_NQ, precise_NQ), settings))
        finite_NQ = finite_NQ if exact else own_NQ
    differences = None if exact_NQ is None else Differences.between(settings.mu, finite_NQ, exact_NQ)
    if not exact:
        checks += _difference_checks(probe, differences, exact_NQ, settings)
    exact_NQ = finite_NQ if exact_NQ is None else exact_NQ
    if facts.exchanges == "estimates":
        taking_part = max(1, round(settings.participation * allocation.num_clients))
        seeds_U = [seed for n in clients for seed in client_seeds(seeds_Q, n)]
        own_U = own_coefficients(exact_NQ, np.ones(len(clients), bool))
        rho_bar_MU = np.broadcast_to(own_U, (network.num_blocks, len(own_U)))
    else:
        taking_part, seeds_U, rho_bar_MU = len(clients), seeds_Q, average_per_block(exact_NQ, A_MN)

    def step_of(m: int) -> torch.Tensor:
        return directions.step(rho_bar_MU[m], seeds_U, m)

    # The probe averages fewer independent directions than a round: its step is longer by the root of their ratio.
    averaged = (len(clients) * len(seeds_Q) / (taking_part * settings.directions)) ** 0.5
    rho_square = float(np.mean(np.square(exact_NQ)))
    blocks = np.flatnonzero(A_MN.any(axis=1))
    length = length_of_step(settings.directions, sum(network.sizes_M))
    lr = rate_of_round(settings, 1, size_of_step(Step(rho_bar_MU), len(seeds_Q)), length)
    checks.extend(_step_checks(network, blocks, step_of, averaged, rho_square, lr, settings))
    return Preflight(tuple(checks), float(np.sqrt(rho_square)), differences)


def _exact_scalars(probe: tuple, settings: Settings, *, needed: bool) -> np.ndarray | None:
    """The derivatives along the probe's directions; None if the run does not need them and a block has layers of which
    they cannot be computed, such as a mixture of experts.

    Raises:
        InvalidInputError: they are needed, and cannot be computed.
    """
    try:
        return estimate_exact(*probe, inactive=settings.inactive).rho_NQ
    except InvalidInputError:
        if needed:
            raise
        return None


def _difference_checks(
    probe: tuple, differences: Differences | None, exact_NQ: np.ndarray | None, settings: Settings
) -> list[Check]:
    """The checks ``perturbation``, and ``scalars`` where exact scalars are known."""
    network, _, A_MN, seeds_Q, directions = probe
    lost = _lost_perturbation(network, A_MN, directions, int(seeds_Q[0]), settings.mu)
    if differences is None or exact_NQ is None:
        return [_perturbation_check(lost, "a larger mu", settings)]
    error, mu_cure = differences.relative_error, ""
    if not (lost <= MOST_LOST and error <= MOST_SCALAR_ERROR):
        mu_cure = _other_mu(probe, exact_NQ, settings)
    return [_perturbation_check(lost, mu_cure, settings), _scalar_check(error, mu_cure, exact_NQ, settings)]


def _relative_error(estimated_NQ: np.ndarray, exact_NQ: np.ndarray) -> float:
    scale = float(np.linalg.norm(exact_NQ))
    return float(np.linalg.norm(estimated_NQ - exact_NQ)) / scale if scale > 0 else float("nan")


def _lost_perturbation(network: Blocks, A_MN: np.ndarray, directions: Directions, seed: int, mu: float) -> float:
    lost = intended = 0.0
    for m in np.flatnonzero(A_MN.any(axis=1)):
        shift = directions.block(seed, int(m)).mul_(mu)
        weights = network.block_weights(int(m))
        for piece in _pieces(len(weights)):
            part, moved_by = weights[piece], shift[piece]
            moved = (part + moved_by).double() - part.double()
            lost += float((moved - moved_by.double()).square().sum())
            intended += float(moved_by.double().square().sum())
    return (lost / intended) ** 0.5 if intended > 0 else 1.0


def _square_of_weights(network: Blocks, blocks: Iterable[int]) -> float:
    weights_M = (network.block_weights(int(m)) for m in blocks)
    return sum(
        float(weights[piece].double().square().sum()) for weights in weights_M for piece in _pieces(len(weights))
    )


def _pieces(size: int) -> Iterator[slice]:
    """Slices of a large block: the whole block in float64 would take several times its memory."""
    return (slice(start, start + PIECE) for start in range(0, size, PIECE))


def _other_mu(probe: tuple, exact_NQ: np.ndarray, settings: Settings) -> str:
    """The remedy for a wrong mu: the mu with the least error that passes both limits, or else another change."""
    if not _has_derivative(exact_NQ):
        return "another model, or other rows"
    network, _, A_MN, seeds_Q, directions = probe
    error_of = {}
    for mu in _OTHER_MU:
        tried_NQ = estimator_of(settings.replace(mu=mu))(*probe).rho_NQ
        error_of[mu] = np.nan_to_num(_relative_error(tried_NQ, exact_NQ), nan=np.inf)
    for mu in sorted(error_of, key=error_of.__getitem__):
        if not error_of[mu] <= MOST_SCALAR_ERROR:
            break
        if _lost_perturbation(network, A_MN, directions, int(seeds_Q[0]), mu) <= MOST_LOST:
            return f"mu {mu:g} (its error here: {error_of[mu]:.1%})"
    return f"estimator exact, which takes no mu (none from {_OTHER_MU[0]:g} to {_OTHER_MU[-1]:g} passes)"


def _has_derivative(exact_NQ: np.ndarray) -> bool:
    return bool(np.isfinite(exact_NQ).all() and exact_NQ.any())


def _perturbation_check(lost: float, mu_cure: str, settings: Settings) -> Check:
    finding = f"rounding to the weights' float32 removes {lost:.0%} of the perturbation, mu times the direction"
    return _at_most("perturbation", lost, MOST_LOST, finding, _longer(settings, mu_cure))


def _product_check(error: float, settings: Settings) -> Check:
    finding = f"with products in {settings.precision} the scalars differ by {error:.1%} from those of highest precision"
    cure = "precision highest" if ESTIMATORS[settings.estimator].exact else "precision highest, or a larger mu"
    return _at_most("products", error, MOST_SCALAR_ERROR, finding, cure)


def _scalar_check(error: float, mu_cure: str, exact_NQ: np.ndarray, settings: Settings) -> Check:
    finding = f"finite differences at mu {settings.mu:g} differ from the exact derivatives by {error:.1%}"
    if not np.isfinite(error):
        finding = f"finite differences at mu {settings.mu:g} are not finite"
    if not _has_derivative(exact_NQ):
        finding = "the loss has no finite derivative other than zero along the blocks that the probed clients activate"
    return _at_most("scalars", error, MOST_SCALAR_ERROR, finding, _longer(settings, mu_cure))


def _of_gradient(network: Blocks, batches_N: list[Rows], settings: Settings) -> Preflight:
    gradient_M, loss_N, _ = mean_gradient(network, batches_N)
    finite = np.isfinite(loss_N).any()
    square = float(sum(gradient.double().square().sum() for gradient in gradient_M)) if finite else float("nan")
    lr = rate_of_round(settings, 1, square**0.5, length_of_step(0, sum(network.sizes_M)))
    checks = _step_checks(network, range(network.num_blocks), gradient_M.__getitem__, 1.0, square, lr, settings)
    return Preflight(tuple(checks), square**0.5)


def _step_checks(
    network: Blocks,
    blocks: Iterable[int],
    step_of: Callable[[int], torch.Tensor],
    averaged: float,
    rho_square: float,
    lr: float,
    settings: Settings,
) -> list[Check]:
    """The checks ``update``, ``stride`` and ``progress``.

    Args:
        step_of: the probe's step of block m at a rate of 1.
        averaged: the length of a round's step over that of the probe's.
        rho_square: by how much a round at a rate of 1 lowers the loss, to first order.
        lr: the rate of the first round.
    """
    lost = step_square = length = 0.0
    for m in map(int, blocks):
        weights, whole_step = network.block_weights(m), step_of(m)
        for piece in _pieces(len(weights)):
            part, step = weights[piece], whole_step[piece]
            moved = part.double() - part.sub(step, alpha=lr).double()
            intended = step.double().mul_(lr)
            lost += float((moved - intended).square().sum())
            step_square += float(intended.square().sum())
            length += float((part.double() * (step != 0)).square().sum())
    # New adapters: only those that are zero have a gradient, so the step is compared with all weights.
    stride = (step_square / (length or _square_of_weights(network, blocks) or 1.0)) ** 0.5 * averaged
    share_lost = (lost / step_square) ** 0.5 if 0 < step_square < np.inf else 1.0
    horizon = max(settings.rounds, _HORIZON)
    progress = horizon * lr * rho_square
    lost_finding = f"rounding to the weights' float32 removes {share_lost:.0%} of a round's step"
    stride_finding = f"a round moves the weights by {stride:.3g} times their own length"
    progress_finding = f"{horizon} rounds would lower the loss by {progress:.2g} nats at best"
    faster = _longer(settings, "a larger lr or --lr auto")
    slower = f"an lr below {0.1 * lr / stride:.1g} or --lr auto" if stride else ""
    progresses = progress >= LEAST_PROGRESS_NATS
    return [
        _at_most("update", share_lost, MOST_LOST, lost_finding, faster),
        _at_most("stride", stride, MOST_STRIDE, stride_finding, slower),
        Check("progress", progress, LEAST_PROGRESS_NATS, progresses, progress_finding, faster),
    ]


def _at_most(name: str, measured: float, limit: float, finding: str, cure: str) -> Check:
    """A check that passes up to ``limit``, and fails on NaN."""
    return Check(name, measured, limit, measured <= limit, finding, cure)


def _longer(settings: Settings, otherwise: str) -> str:
    if settings.direction == "unit-sphere":
        return "direction gaussian or rademacher, of norm sqrt(d) where unit-sphere has 1, with mu 1e-3"
    return otherwise
