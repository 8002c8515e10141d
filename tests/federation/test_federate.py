"""``zorba federate`` and what a run-config may say; everything but the processes."""

from __future__ import annotations

import json
import tomllib
from importlib import import_module

import pytest

from tests.command import call, check_refused
from tests.federation.conftest import all_equal
from tests.runs.test_own_data import reviews
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.federation import client_app
from zorba_core.federation.loopback import _toml
from zorba_core.federation.options import ServerOptions
from zorba_core.federation.request import APP, Request, Terms, run_config
from zorba_core.runs import list_runs, read_run
from zorba_core.runs.folder import task_of
from zorba_core.runs.log import LOG
from zorba_core.runs.record import Callback

QUICK = "--rounds 2 --directions 2 --batch-size 2 --seq-len 24 --eval-every 1 --eval-rows 12 --lr 1e-3 --force --json"


def run(*words: object) -> dict:
    left = call(*words)
    assert left.status == 0, left.err
    return json.loads(left.out)


def test_the_app_folder_is_what_flower_takes_and_names_our_two_files():
    app = tomllib.loads((APP / "pyproject.toml").read_text())
    assert app["project"]["dependencies"] == ["flwr"]  # nothing that an installer would fetch
    for side in ("serverapp", "clientapp"):
        module, attribute = app["tool"]["flwr"]["app"]["components"][side].split(":")
        assert type(getattr(import_module(module), attribute)).__name__.lower() == side
    config = app["tool"]["flwr"]["app"]["config"]
    assert set(config["settings"]) == set(Settings.model_fields)
    assert {name.replace("-", "_") for name in config} >= set(ServerOptions.model_fields)


def test_the_defaults_of_the_app_folder_are_a_run():
    request = Request.of(run_config())
    assert (request.task.name, request.terms.clients, request.terms.settings.directions) == ("toy-reviews", 4, 10)
    assert request.options == ServerOptions()
    assert request.allocation.A_MN.all()
    other = Request.of(run_config(prompt="{text} So", **{"label-words": '["a", "b"]'})).terms
    received = task_of(Terms.read(other.to_json()).task)  # by a client
    assert (received.prompt, received.label_words) == ("{text} So", ("a", "b"))


def test_a_wrong_run_config_is_named():
    for changes, says in [
        ({"settings.method": "fedit", "settings.lr": 0.1}, "runs methods that exchange scalars: zorba, decomfl"),
        ({"settings.estimator": "exact"}, "clients compute forward passes only; use cohort or reference"),
        ({"min-clients": 9}, "min_clients is 9 and there are 4 clients"),
        ({"budgets": "12,6"}, "the allocation is for 2 clients, not 4"),
        ({"budgets": "many"}, "budgets is 'many'"),
        ({"settings.rule": "mode"}, "rule is 'mode'"),
        ({"settings.lr": -1.0}, "lr is -1.0"),
        ({"clients": 0}, "clients is 0"),
    ]:
        with pytest.raises(InvalidInputError, match=says):
            Request.of(run_config(**changes))


def test_a_config_travels_as_toml():
    config = {"a": 'quo"te \\ \U0001f600 \x7f', "settings.lr": 1e-3, "n": 3, "yes": True, "alpha": float("inf")}
    assert tomllib.loads(_toml(config)) == {
        "a": config["a"], "settings": {"lr": 1e-3}, "n": 3, "yes": True, "alpha": float("inf"),
    }  # fmt: skip


@pytest.fixture
def files(tmp_path):
    frame = reviews()
    (tmp_path / "clients").mkdir()
    for branch, rows in frame.groupby("branch"):
        rows[["remark", "verdict"]].to_csv(tmp_path / "clients" / f"{branch}.csv", index=False)
    frame.head(20).to_csv(tmp_path / "test.csv", index=False)
    return ["--data", str(tmp_path / "clients" / "*.csv"), "--test", str(tmp_path / "test.csv"), "--label", "verdict",
            "--text", "remark"]  # fmt: skip


def test_a_simulation_of_ones_own_files_is_resumed_predicted_and_evaluated(files, tiny_opt_folder, tmp_path):
    words = ["--model", str(tiny_opt_folder), "--budgets", "3,2,2", *QUICK.split()]
    whole = run("federate", "--simulate", *files, *words, "--runs-folder", str(tmp_path / "runs"))
    done = read_run(whole["run"])
    assert all_equal(done, 3)
    assert [node["rows"][-12:] for node in done.config["federation"]["nodes"]] == [f"branch-{n}.csv" for n in range(3)]
    log = (done.path / LOG).read_bytes()
    (done.path / LOG).write_bytes(log[:-200])  # as a server that was killed
    (done.path / "summary.json").unlink()
    client_app._run = ""
    resumed = run("resume", str(done.path), "--json")
    assert resumed["weights_sha256"] == whole["weights_sha256"]
    assert resumed["rounds_done"] == 2
    assert run("evaluate", str(done.path), "--data", str(tmp_path / "test.csv"), "--json")["rows"] == 20
    assert run("predict", str(done.path), "--text", "it was lovely", "--json")["prediction"] in ("good", "bad")


def test_a_wrong_request_is_named_before_anything_is_started(monkeypatch):
    for words, says in [
        (["--name", "--no-such-option"], "run name '--no-such-option'"),
        (["--clients", "3", "--budgets", "1,2"], "--budgets names 2 clients"),
        (["--rule", "mode"], "rule is 'mode'"),
        (["--estimator", "exact"], "use cohort or reference"),
        (["--min-clients", "9"], "min_clients is 9"),
    ]:
        monkeypatch.setattr("zorba_core.federation.loopback.Loopback", None)
        refused = call("federate", "--dataset", "toy-reviews", *words)
        check_refused(refused)
        assert (refused.status, says in refused.err) == (2, True)


def test_a_finished_run_and_one_of_other_hosts_are_not_resumed(ask, nodes, tmp_path):
    from zorba_core.federation.server_app import serve
    from zorba_core.federation.simulate import LocalGrid

    class Stop(Callback):
        def on_round(self, done):
            raise RunError("stopped")

    with pytest.raises(RunError, match="stopped"):
        serve(ask(), LocalGrid(nodes), callbacks=[Stop()])
    (elsewhere,) = list_runs(tmp_path / "federated").runs
    refused = call("resume", elsewhere.path)
    check_refused(refused)
    assert "the clients are on other hosts; resume it with: flwr run" in refused.err
    with pytest.raises(InvalidInputError, match="resume it with: zorba resume"):
        elsewhere.resume()
    done = serve(Request.of({"resume": str(elsewhere.path)}), LocalGrid(nodes))
    with pytest.raises(InvalidInputError, match="this run is finished"):
        serve(Request.of({"resume": str(done.path)}), LocalGrid(nodes))
