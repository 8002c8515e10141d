"""The ways to get rho[n, q], by the name that settings know them by. Listing them loads no torch.

An estimator is one function in a file and one :class:`Estimator` registered in ``ESTIMATORS``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from zorba_core.registry import Registry, imported, instance_of


@dataclass(frozen=True)
class Estimator:
    """One way to get the clients' scalars.

    ``run(network, batches_N, A_MN, seeds_Q, directions, *, mu, inactive)`` gives an
    :class:`zorba_core.engine.estimators.reference.Estimate` and leaves the network's weights as they were, bit for bit.
    It is a function, or "module:name" of one.
    """

    name: str
    title: str
    help: str  # one line
    run: Callable[..., Any] | str
    exact: bool = False  # directional derivatives by backpropagation, whose memory they take: mu plays no part


ESTIMATORS: Registry[Estimator] = Registry(
    "estimator", "zorba.estimators", accepts=instance_of(Estimator), home=lambda: _register_own()
)


def _register_own() -> None:
    here, differences = __name__.rpartition(".")[0], "finite differences"
    for part in (
        Estimator("cohort", "Cohort", f"{differences}, all clients in one pass", f"{here}.cohort:estimate_cohort"),
        Estimator("reference", "Reference", f"{differences}, one client after another", f"{here}.reference:estimate"),
        Estimator(
            "exact",
            "Exact",
            "exact directional derivatives, all clients in one backward pass: the fastest simulation",
            f"{here}.exact:estimate_exact",
            exact=True,
        ),
    ):
        ESTIMATORS.register(part)


def estimator_of(settings: Any) -> Callable[..., Any]:
    """The estimator of a run's :class:`zorba_core.engine.settings.Settings`, its finite difference and its reading
    of inactive blocks filled in."""
    estimator = ESTIMATORS.get_part(settings.estimator)
    options = {"mu": settings.mu, "inactive": settings.inactive}
    return functools.partial(imported(estimator.run), **options)
