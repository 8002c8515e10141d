"""A federated run's request as plain JSON: what ``config.json`` holds and what a server is started with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from zorba_core.allocation import Allocation
from zorba_core.data.divide import DIRICHLET
from zorba_core.engine.estimators.registry import ESTIMATORS
from zorba_core.engine.methods.registry import METHODS, method_facts
from zorba_core.errors import InvalidInputError, first_line
from zorba_core.federation.config import RunConfig, ServerSettings
from zorba_core.files import to_json
from zorba_core.runs.complete import allocation_config
from zorba_core.runs.folder import settings_of
from zorba_core.runs.log import CONFIG


def check_config(config: RunConfig, settings: ServerSettings) -> None:
    """Refuse what cannot be federated.

    Raises:
        InvalidInputError: a method that exchanges more than scalars, an estimator that takes a backward pass, or fewer
            seats than clients to wait for.
    """
    if not method_facts(config.settings.method).federates:
        known = ", ".join(name for name, facts in METHODS.items() if facts.federates)
        raise InvalidInputError(
            f"method is {config.settings.method}; a federation of processes runs methods that exchange scalars: {known}"
        )
    if ESTIMATORS[config.settings.estimator].exact:
        raise InvalidInputError(
            f"estimator is {config.settings.estimator}, which simulates clients by a backward pass, and a federation's "
            "clients take forward passes alone; use cohort or reference"
        )
    if settings.min_clients > config.num_clients:
        raise InvalidInputError(f"min_clients is {settings.min_clients} and there are {config.num_clients} seats")
    if config.task and not settings.evaluate_on:
        raise InvalidInputError(
            f"the server has no rows of task {config.dataset} to evaluate on; give a file of its own with --test"
        )


def request_config(config: RunConfig, settings: ServerSettings) -> dict[str, Any]:
    """What a federated run is asked for, as plain JSON; :func:`configs_of` reads it back."""
    return {
        "dataset": config.dataset,
        "model": config.model,
        "label_words": list(config.label_words),
        "num_clients": config.num_clients,
        "alpha": config.alpha,
        "division": config.division,
        **({"task": json.loads(config.task)} if config.task else {}),
        **config.settings.model_dump(),
        "federation": settings.model_dump(),
    }


def folder_config(config: RunConfig, settings: ServerSettings, allocation: Allocation) -> dict[str, Any]:
    """``config.json`` of a federated run: that of any run, and how the server runs its rounds."""
    return {
        **request_config(config, settings),
        "num_blocks": allocation.num_blocks,
        "allocation": allocation_config(allocation, {"solver": settings.solver}),
    }


def configs_of(path: Path, value: dict[str, Any]) -> tuple[RunConfig, ServerSettings]:
    """Both configs from a run's ``config.json``.

    Raises:
        InvalidInputError: the run is not a federated one, or a value is impossible.
    """
    if "federation" not in value:
        raise InvalidInputError(f"{path}: this run was made in one process; continue it with zorba resume")
    try:
        config = RunConfig(
            **{name: value[name] for name in ("dataset", "model", "label_words", "num_clients", "alpha")},
            settings=settings_of(value, path),
            division=value.get("division", DIRICHLET),
            task=to_json(value["task"]) if "task" in value else "",
        )
        return config, ServerSettings(**value["federation"])
    except KeyError as error:
        raise InvalidInputError(f"{path / CONFIG}: {error} is missing") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidInputError(f"{path / CONFIG}: no federated run's config: {first_line(error)}") from None
