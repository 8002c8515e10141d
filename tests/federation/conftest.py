"""A tiny model and virtual clients: everything but the processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

from zorba_core.federation import client_app, members
from zorba_core.federation.request import ServerRequest, run_config
from zorba_core.federation.simulate import LocalGrid
from zorba_core.runs import Run
from zorba_core.runs.train import fine_tune

BUDGETS = (2, 1, 3, 1)
SETTINGS = {
    "rounds": 4, "lr": 1e-3, "directions": 3, "num_seeds": 16, "batch_size": 4, "seq_len": 32, "eval_every": 2,
    "eval_rows": 20, "estimator": "reference",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_client_of_another_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_app, "_run", "")
    monkeypatch.setattr(client_app, "RESIDENT", False)
    monkeypatch.setattr(members, "_LOOK_FOR_ANSWERS", 0.01)
    monkeypatch.setattr(members, "_LOOK_FOR_NODES", 0.0)


@pytest.fixture
def ask(tiny_opt_folder: Path, tmp_path: Path) -> Callable[..., ServerRequest]:
    """A request, from changes of the run-config and of the settings."""

    def make(settings: dict[str, Any] | None = None, **config: Any) -> ServerRequest:
        given = {f"settings.{name}": value for name, value in {**SETTINGS, **(settings or {})}.items()}
        usual = {
            "model": str(tiny_opt_folder), "budgets": ",".join(map(str, BUDGETS)), "force": True,
            "runs-folder": str(tmp_path / "federated"), "deadline": 5.0, "start-timeout": 1.0,
        }  # fmt: skip
        return ServerRequest.of(run_config(**usual | given | config))

    return make


@pytest.fixture
def nodes(tiny_opt_folder: Path) -> list[dict[str, Any]]:
    return [{"partition-id": n, "model": str(tiny_opt_folder)} for n in range(len(BUDGETS))]


@pytest.fixture
def in_one_process(tmp_path: Path) -> Callable[..., Run]:
    """The run that ``zorba train`` makes of a request."""

    def run(request: ServerRequest, **options: Any) -> Run:
        who = {"allocation": request.run.allocation}
        if request.terms.settings.method == "decomfl":
            who = {"num_clients": request.terms.clients}
        return fine_tune(
            **who, dataset=request.run.task, model=request.terms.model, settings=request.terms.settings,
            division=request.terms.division, alpha=request.terms.alpha, runs_folder=tmp_path / "one", force=True,
            **options,
        )  # fmt: skip

    return run


class Changed(LocalGrid):
    """Virtual clients whose answers to training tasks a test takes away or changes.

    ``change(client, round, records)`` returns the records of the answer, or None: there is none. A message to a client
    in ``slow`` is answered only when the test says so, by :meth:`deliver`.
    """

    def __init__(self, node_configs: Any, change: Callable[..., Any] = lambda client, t, records: records) -> None:
        super().__init__(node_configs)
        self.change, self.slow, self._held_back = change, set(), {}
        self.asked: list[tuple[int, int]] = []  # (client, round)

    def push_messages(self, messages: Any) -> list[str]:
        messages = list(messages)
        ids = super().push_messages(messages)
        for name, message in zip(ids, messages, strict=True):
            if message.metadata.message_type != "train" or name not in self._answers:
                continue
            client = self.nodes[message.metadata.dst_node_id].node_config["partition-id"]
            t = message.content["zorba"]["round"]
            self.asked.append((client, t))
            records = self.change(client, t, self._answers[name].content)
            if records is None:
                del self._answers[name]
            elif client in self.slow:
                self._held_back[name] = self._answers.pop(name)
            else:
                self._answers[name].content = records
        return ids

    def deliver(self) -> None:
        """All answers that were held back."""
        self._answers |= self._held_back
        self._held_back = {}


def all_equal(run: Run, clients: int = len(BUDGETS)) -> bool:
    replicas = run.summary["replicas"]
    return len(replicas) == clients and all(client["equal"] for client in replicas)
