"""A tiny model and a federation of in-process clients: everything but the processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugin_example.zorba_example import CENTRAL, MOMENTUM, TICKETS
from tests.tiny_models import tiny_model, tiny_opt_folder, tiny_tokenizer  # noqa: F401
from zorba_core.data.task import TASKS, get_task
from zorba_core.engine.estimators.registry import ESTIMATORS
from zorba_core.engine.methods.registry import METHODS
from zorba_core.engine.settings import Settings
from zorba_core.federation.client import Client
from zorba_core.federation.client_settings import ClientSettings
from zorba_core.federation.config import RunConfig, ServerSettings
from zorba_core.federation.in_process import InProcess
from zorba_core.federation.replica_store import ReplicaStore

BUDGETS = (2, 1, 3, 1)


@pytest.fixture
def train_settings() -> Settings:
    return Settings(
        rounds=4, lr=1e-3, directions=3, num_seeds=16, batch_size=4, seq_len=32, eval_every=2, eval_rows=20,
        estimator="reference",
    )  # fmt: skip


@pytest.fixture
def make_config(tiny_opt_folder: Path, train_settings: Settings) -> Callable[..., RunConfig]:  # noqa: F811
    def make(settings: Settings = train_settings, num_clients: int = len(BUDGETS)) -> RunConfig:
        words = get_task("toy-reviews").label_words
        return RunConfig(
            dataset="toy-reviews",
            model=str(tiny_opt_folder),
            label_words=words,
            num_clients=num_clients,
            alpha=1.0,
            settings=settings,
        )

    return make


@pytest.fixture
def make_clients(tiny_opt_folder: Path) -> Callable[..., dict[int, Client]]:  # noqa: F811
    """Clients of the given budgets, by the address 100 + seat."""

    def make(budgets: tuple[int, ...] = BUDGETS, stores: Path | None = None) -> dict[int, Client]:
        return {
            100 + seat: Client(
                ClientSettings(seat=seat, blocks=blocks, model=str(tiny_opt_folder)),
                None if stores is None else ReplicaStore(stores / f"seat-{seat}"),
            )
            for seat, blocks in enumerate(budgets)
        }

    return make


@pytest.fixture
def server_settings() -> ServerSettings:
    return ServerSettings(min_clients=len(BUDGETS), start_timeout=0.01, deadline=1.0)


@pytest.fixture
def transport(make_clients: Callable[..., dict[int, Client]]) -> InProcess:
    return InProcess(make_clients())


@pytest.fixture
def example_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Method, estimator and task of tests/plugin_example are registered in this process while the test runs."""
    for registry, part in ((METHODS, MOMENTUM), (ESTIMATORS, CENTRAL), (TASKS, TICKETS)):
        monkeypatch.setattr(registry, "_parts", dict(registry))
        registry.register(part)
