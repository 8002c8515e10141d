"""``zorba federation``: what is wrong is said before anything is started; Flower takes the app that it writes."""

from __future__ import annotations

import importlib.util
import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from zorba_core.cli import build_app
from zorba_core.cli.federation import _how_to_resume, _nodes
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.federation.session import serve
from zorba_core.files import write_json

pytest.importorskip("flwr")

from zorba_core.federation.flower import loopback


def run(*arguments: str) -> str:
    result = CliRunner().invoke(build_app(), ["federation", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_app_names_our_apps_and_holds_the_request(tmp_path):
    out = run(
        "up", "--app-only", "--folder", str(tmp_path), "--clients", "3", "--dataset", "toy-reviews", "--rounds", "7",
        "--rule", "median", "--json",
    )  # fmt: skip
    folder = Path(json.loads(out)["app"])
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    assert project["project"]["dependencies"] == ["flwr"]  # nothing that an installer would fetch
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp

    for side, kind in (("serverapp", ServerApp), ("clientapp", ClientApp)):
        module, attribute = project["tool"]["flwr"]["app"]["components"][side].split(":")
        spec = importlib.util.spec_from_file_location(module, folder / f"{module}.py")
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        assert isinstance(getattr(loaded, attribute), kind)
    request = json.loads(Path(project["tool"]["flwr"]["app"]["config"]["request"]).read_text())
    assert (request["config"]["rounds"], request["config"]["num_clients"], request["resume"]) == (7, 3, None)
    assert request["config"]["federation"]["aggregation"]["rule"] == "median"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--name", "--no-such-option"], "run name '--no-such-option'"),
        (["--clients", "3", "--blocks", "1,2"], "--blocks names 2 clients"),
        (["--clients", "1", "--blocks", "many"], "--blocks is 'many'"),
        (["--clients", "1", "--blocks", "1", "--vram-gib", "2"], "not both"),
        (["--clients", "2", "--vram-gib", "2,1e300"], r"--vram-gib is 1e\+300 for client 1; at most 1e\+09 are taken"),
        (["--clients", "2", "--blocks", "12,6", "--method", "decomfl"], "every client holds all 12 blocks"),
        (["--min-clients", "9"], "min_clients is 9"),
        (["--rule", "mode"], "mode"),
        (["--app-only"], "needs --folder"),
    ],
)
def test_a_wrong_request_is_named_before_anything_is_started(arguments, named):
    with pytest.raises(InvalidInputError, match=named):
        run("up", "--dataset", "toy-reviews", *arguments)


@pytest.fixture
def nothing_starts(monkeypatch):
    monkeypatch.setattr(loopback, "federate_on_loopback", lambda *args, **options: pytest.fail("started"))


@pytest.mark.usefixtures("nothing_starts")
def test_a_finished_federation_is_refused_before_anything_is_started(make_config, server_settings, transport, tmp_path):
    finished = serve(make_config(), server_settings, transport, runs_folder=tmp_path / "runs", force=True)
    with pytest.raises(InvalidInputError, match="this run is finished; there is nothing to resume"):
        run("up", "--resume", str(finished.path), "--folder", str(tmp_path / "folder"))
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize(
    ("result", "says"),
    [({"error": "too few came"}, "the server failed: too few came"), (None, "the server stopped unexpectedly")],
)
def test_a_server_that_fails_or_dies_is_named(tmp_path, monkeypatch, result, says):
    monkeypatch.setattr(loopback, "_SECONDS_TO_BEGIN", 0.0)
    if result is not None:
        write_json(tmp_path / "result.json", result)
    with loopback.Loopback(tmp_path) as processes, pytest.raises(RunError, match=says):
        processes.await_run("no such server", lambda line: None)


def test_clients_of_a_method_that_activates_every_block_hold_every_block():
    assert _nodes(3, None, None, 12) == [{"blocks": 12}] * 3
    assert [node["blocks"] for node in _nodes(5, None, None, None)] == [12, 6, 4, 2, 12]


def test_how_to_resume_is_said_where_a_run_was_made(tmp_path):
    assert _how_to_resume(tmp_path) == f"logs and replicas are in {tmp_path}"
    write_json(tmp_path / "run.json", {"run": "runs/one"})
    command = f"zorba federation up --resume runs/one --folder {tmp_path}"
    assert _how_to_resume(tmp_path).endswith(f"; resume with: {command}")
