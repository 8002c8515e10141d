"""Differential privacy of the averages that the server gives out: clip each client's scalars, add Gaussian noise.

What is protected is one client's whole part in a round (its Q scalars); neighbours are a run with it and the same run
with its scalars replaced by zeros, known as zero-out adjacency (Kairouz et al., 2021, arXiv:2103.00039). What is
released is rho_bar_MQ of every round: other clients, and whoever is given the model, learn nothing else. The server
itself is trusted: it sees each client's scalars, as they are, and losses, and its run folder holds both
(``trajectory.log``, ``metrics.parquet``); who is given that folder learns more than epsilon allows.

With ||rho_n|| <= C over the Q directions and the plan's popularity c_m, whichever clients answered, the released matrix
moves by at most

    S = max_n  (C / Q) sqrt( sum_{m active in n} 1 / c_m^2 )

in L2, and every number of a block that someone activates gets noise of standard deviation ``noise_multiplier * S``. The
denominator is the plan's and not the number of answers, since who answered is itself private. The rounds compose;
everyone asked takes part in each, and who is asked follows from a public seed, so no amplification by sampling is
claimed. The noise comes from the operating system's randomness and is never that of the run's seed.

Not covered: rounding of floating-point noise (Mironov, 2012), timing, and an outlier rule that looks at other clients,
which is therefore off in a private run.

Shapes: M blocks, N clients, Q directions of a round.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import numpy as np

from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.fields import check, setting

_SAID = "privacy {name} is {value}"


@dataclass(frozen=True)
class PrivacySettings:
    """Off by default (``noise_multiplier`` 0).

    Raises:
        InvalidInputError: a number out of range, or noise without a clip.
    """

    # The standard deviation of the noise, in sensitivities.
    noise_multiplier: float = setting(
        0.0, "Noise multiplier of differential privacy; 0 is off.", at_least=0, option="noise", said=_SAID
    )
    clip: float = setting(
        0.0,
        "Longest scalars of a client in a round, for differential privacy.",
        at_least=0,
        option="private_clip",
        said=_SAID,
    )
    delta: float = setting(1e-5, "delta of differential privacy.", above=0, below=1, said=_SAID)

    def __post_init__(self) -> None:
        check(self)
        if self.noise_multiplier > 0 and self.clip == 0:
            raise InvalidInputError("privacy noise needs a clip: without one nothing bounds what a client adds")

    @property
    def on(self) -> bool:
        return self.noise_multiplier > 0


def private_average(
    rho_NQ: np.ndarray,
    A_MN: np.ndarray,
    reported_N: np.ndarray,
    settings: PrivacySettings,
    generator: np.random.Generator | None = None,
) -> np.ndarray:
    """rho_bar_MQ with noise, float64. ``generator`` is for tests; by default noise cannot be predicted."""
    generator = generator or np.random.Generator(np.random.PCG64(secrets.randbits(128)))
    A_MN, num_directions = np.asarray(A_MN, dtype=bool), rho_NQ.shape[1]
    length_N = np.linalg.norm(rho_NQ, axis=1)
    scale_N = np.minimum(1.0, settings.clip / np.maximum(length_N, np.finfo(float).tiny))
    clipped_NQ = np.where(reported_N[:, None], rho_NQ * scale_N[:, None], 0.0)
    popularity_M = A_MN.sum(axis=1)
    rho_bar_MQ = (A_MN @ clipped_NQ) / np.maximum(popularity_M, 1)[:, None] / num_directions
    std = settings.noise_multiplier * sensitivity(A_MN, num_directions, settings.clip)
    noise_MQ = generator.normal(0.0, std, size=rho_bar_MQ.shape)
    return np.where(popularity_M[:, None] > 0, rho_bar_MQ + noise_MQ, 0.0)


def sensitivity(A_MN: np.ndarray, num_directions: int, clip: float) -> float:
    """S: how far, in L2, one client can move the released averages of a round."""
    A_MN = np.asarray(A_MN, dtype=bool)
    inverse_M = 1.0 / np.maximum(A_MN.sum(axis=1), 1)
    return float(clip / num_directions * np.sqrt((A_MN * np.square(inverse_M)[:, None]).sum(axis=0).max()))


def epsilon(settings: PrivacySettings, rounds: int) -> float:
    """epsilon of (epsilon, delta)-differential privacy after ``rounds`` rounds, by Opacus' Renyi accountant.

    Raises:
        MissingDataError: Opacus is not installed (extra ``privacy``).
    """
    if not settings.on:
        return float("inf")
    if rounds == 0:
        return 0.0
    try:
        from opacus.accountants.analysis import rdp
    except ImportError:
        raise MissingDataError(
            "privacy needs an accountant: pip install -c constraints.txt torch==2.13.0 -e '.[privacy]'"
        ) from None
    orders = [1 + x / 10.0 for x in range(1, 100)] + list(range(12, 1024))
    spent = rdp.compute_rdp(q=1.0, noise_multiplier=settings.noise_multiplier, steps=rounds, orders=orders)
    spent_epsilon, _order = rdp.get_privacy_spent(orders=orders, rdp=spent, delta=settings.delta)
    return float(spent_epsilon)
