"""Real processes: a SuperLink, SuperNodes, and a client's machine that loses power."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("flwr")

from tests.federation.conftest import processes_under
from tests.runs.test_own_data import reviews
from zorba_core.data.file_rows import FileRows
from zorba_core.data.tasks import Task
from zorba_core.federation.config import ServerSettings, shared_task
from zorba_core.federation.flower.deployment import Deployment
from zorba_core.federation.flower.loopback import federate_on_loopback
from zorba_core.federation.request import request_config
from zorba_core.runs import TRAJECTORY
from zorba_core.runs.trajectory import read_trajectory


class PowerCut:
    """Kills a node once a round is in the log, and starts it again at once, with the folder that it left."""

    def __init__(self, runs_folder, seat: int, after_round: int, node: dict) -> None:
        self._runs, self._seat, self._after, self._node = runs_folder, seat, after_round, node
        self.done = False

    def __call__(self, deployment: Deployment) -> None:
        logs = list(self._runs.glob(f"*/{TRAJECTORY}"))
        if not self.done and logs and read_trajectory(logs[0]).rounds_done >= self._after:
            deployment.kill(f"node-{self._seat}")
            deployment.start_node(self._seat, self._node)
            self.done = True


@pytest.mark.slow
def test_two_supernodes_with_their_own_files_and_an_installed_method_end_with_equal_weights_after_a_power_cut(
    make_config, train_settings, tmp_path, example_parts, example_path, monkeypatch
):
    """Server and clients are processes of their own: they know method and estimator by entry points alone."""
    monkeypatch.setenv("PYTHONPATH", example_path)
    reviews().iloc[:40].to_csv(tmp_path / "first.csv")
    reviews().iloc[40:].to_json(tmp_path / "second.jsonl", orient="records", lines=True)
    rows = FileRows(str(tmp_path / "first.csv"), label="verdict")
    task = Task(name="reviews", prompt="{remark} It was", rows=rows)
    ours = replace(train_settings, rounds=3, method="momentum", estimator="central")
    config = make_config(ours, num_clients=2)
    config = replace(config, dataset="reviews", task=shared_task(task))
    own_test = str(tmp_path / "second.jsonl")
    settings = ServerSettings(min_clients=2, start_timeout=300.0, deadline=13.0, patience=4, evaluate_on=own_test)
    nodes = [
        {"blocks": 2, "model": config.model, "rows": str(tmp_path / "first.csv")},
        {"blocks": 3, "model": config.model, "rows": str(tmp_path / "second.jsonl")},
    ]
    power_cut = PowerCut(tmp_path / "runs", 1, 1, nodes[1])
    lines: list[str] = []
    run = federate_on_loopback(
        tmp_path / "deployment", request_config(config, settings), nodes, runs_folder=tmp_path / "runs", force=True,
        tell=lines.append, watch=power_cut,
    )  # fmt: skip
    assert power_cut.done
    assert (run.summary["rounds_done"], run.summary["method"]) == (3, "momentum")
    replicas = run.summary["replicas"]
    assert [(client["seat"], client["equal"]) for client in replicas] in ([(0, True)], [(0, True), (1, True)])
    trajectory = read_trajectory(run.path / TRAJECTORY)
    assert float(trajectory.rounds[-1].method_state["rounds"]) == 3
    assert [note.content["seat"] for note in trajectory.notes if note.what == "joined"][:2] in ([0, 1], [1, 0])
    assert any(line.startswith("round 3/3") for line in lines)
    assert processes_under(tmp_path / "deployment" / "flwr-home") == []
