"""The ways to get rho[n, q], by the name that settings know them by. All have one signature and one result."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.estimators.jvp import estimate_jvp
from zorba_core.engine.estimators.reference import Estimate, estimate
from zorba_core.engine.settings import TrainSettings

Estimator = Callable[..., Estimate]

ESTIMATORS: Mapping[str, Estimator] = {
    "cohort": estimate_cohort,  # finite differences, all clients in one pass a direction
    "reference": estimate,  # finite differences, one client after another
    "jvp": estimate_jvp,  # exact directional derivatives, one client after another
}


def estimator_of(settings: TrainSettings) -> Estimator:
    """The estimator that a run uses, its finite difference and its reading of inactive blocks filled in."""
    options = {"mu": settings.mu, "inactive": settings.inactive}
    if settings.estimator == "cohort":
        options["max_rows"] = settings.max_rows
    return functools.partial(ESTIMATORS[settings.estimator], **options)
