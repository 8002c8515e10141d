"""``zorba federation``: what is wrong is said before anything is started; Flower takes the app that it writes."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import tomllib
from pathlib import Path
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from tests.damage import tree
from zorba_core.cli import build_app
from zorba_core.cli.federation import _how_to_resume, _nodes, _nodes_before
from zorba_core.errors import InvalidInputError, MissingDataError, RunError
from zorba_core.federation.flower.locks import alone_in
from zorba_core.federation.request import request_config
from zorba_core.federation.session import serve
from zorba_core.files import write_json
from zorba_core.runs.folder import Request

pytest.importorskip("flwr")


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
        (["--clients", "1", "--blocks", "0"], "above 0"),
        (["--clients", "1", "--blocks", "1", "--vram-gib", "2"], "not both"),
        (["--clients", "2", "--vram-gib", "2,1e300"], r"--vram-gib is 1e\+300 for client 1; at most 1e\+09 are taken"),
        (["--clients", "1", "--vram-gib", "inf"], "--vram-gib is inf for client 0"),
        (["--clients", "2", "--blocks", "12,6", "--method", "decomfl"], "every client holds all 12 blocks"),
        (["--clients", "0"], "num_clients is 0"),
        (["--min-clients", "9"], "min_clients is 9"),
        (["--dataset", "imdb"], "imdb"),
        (["--rule", "mode"], "mode"),
        (["--solver", "guess"], "guess"),
        (["--app-only"], "needs --folder"),
        (["--rounds", "0"], "rounds is 0"),
    ],
)
def test_a_wrong_request_is_named_before_anything_is_started(arguments, named):
    with pytest.raises(InvalidInputError, match=named):
        run("up", "--dataset", "toy-reviews", *arguments)


def test_a_model_that_is_not_there_is_named_before_anything_is_started():
    with pytest.raises(InvalidInputError, match="unknown model"):
        run("up", "--dataset", "toy-reviews", "--model", "no-such-model")


def test_a_run_that_is_not_there_cannot_be_gone_on_with(tmp_path):
    with pytest.raises((MissingDataError, InvalidInputError)):
        run("up", "--resume", str(tmp_path / "none"))


@pytest.fixture
def nothing_starts(monkeypatch):
    from zorba_core.federation.flower import loopback

    monkeypatch.setattr(loopback, "federate_on_loopback", lambda *args, **options: pytest.fail("started"))


@pytest.mark.usefixtures("nothing_starts")
def test_a_second_federation_in_one_folder_is_refused_and_the_first_goes_on(tmp_path):
    """Its server's answer would end the first one's wait, and its SuperLink shares the first one's database."""
    before = b'{"state": "done", "run": "r"}'
    (tmp_path / "result.json").write_bytes(before)
    with alone_in(tmp_path), pytest.raises(InvalidInputError, match="another process runs a federation there"):
        run("up", "--dataset", "toy-reviews", "--clients", "2", "--folder", str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]
    assert (tmp_path / "result.json").read_bytes() == before
    with alone_in(tmp_path / "new"):
        assert (tmp_path / "new").is_dir()
    assert not (tmp_path / "new").exists()  # nothing came of it


@pytest.mark.usefixtures("nothing_starts")
def test_a_finished_federation_is_refused_before_anything_is_started(
    make_config, server_settings, tmp_path, monkeypatch
):
    request = Request(tmp_path, request_config(make_config(), server_settings), {}, None)
    monkeypatch.setattr("zorba_core.runs.read_request", lambda path: request)
    monkeypatch.setattr("zorba_core.runs.folder.read_summary", lambda path: {"stopped_by": "rounds"})
    (tmp_path / "summary.json").write_text("{}")
    with pytest.raises(InvalidInputError, match="this run is finished; there is nothing to resume"):
        run("up", "--resume", str(tmp_path), "--folder", str(tmp_path / "folder"))
    assert not (tmp_path / "folder").exists()


def test_a_server_that_fails_names_the_reason_and_the_place_of_its_logs_once(tmp_path, monkeypatch):
    from zorba_core.federation.flower import loopback

    def fail(folder, *args, tell, **options):
        (folder / "server.log").write_text("joined: seat 0\nfailed: too few came\n")
        lines = loopback.Tail(folder / "server.log")
        lines._at = 0
        lines.tell(tell)
        return loopback.finished({"state": "failed", "error": "too few came"})

    monkeypatch.setattr(loopback, "federate_on_loopback", fail)
    arguments = ["federation", "up", "--dataset", "toy-reviews", "--clients", "2", "--folder", str(tmp_path)]
    result = CliRunner().invoke(build_app(), arguments)
    assert isinstance(result.exception, RunError)
    assert str(result.exception) == f"the server failed: too few came; logs and replicas are in {tmp_path}"
    assert "joined: seat 0" in result.output
    assert "too few came" not in result.output  # the error says it


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"run": "r"}', '{"state": "done"}', '{"state": "failed"}'],
)
def test_a_servers_result_that_was_damaged_is_named_and_not_waited_for(tmp_path, content):
    from zorba_core.federation.flower import loopback

    (tmp_path / "result.json").write_text(content)
    deployment = Mock(running=Mock(side_effect=[True, RunError("it is waited for")]))
    with pytest.raises(RunError, match=r"result\.json: .* damaged; see .*server\.log$"):
        loopback.finished(loopback.await_result(deployment, tmp_path))


def test_clients_of_a_method_that_activates_every_block_hold_every_block():
    """Half of them would be turned away by default, and the server would wait for them in vain."""
    assert _nodes(3, None, None, 12) == [{"blocks": 12}] * 3
    assert [node["blocks"] for node in _nodes(5, None, None, None)] == [12, 6, 4, 2, 12]


NODES = [{"blocks": 9, "model": "opt-mini"}, {"vram-gib": 0.5, "model": "opt-mini"}]


def test_a_resumed_runs_clients_hold_what_they_held_before(tmp_path):
    assert _nodes_before(tmp_path, 2) is None
    write_json(tmp_path / "nodes.json", {"nodes": NODES})
    assert _nodes_before(tmp_path, 2) == NODES


def test_a_resumed_runs_clients_are_not_given_other_blocks_because_their_file_is_gone(tmp_path):
    (tmp_path / "node-0").mkdir()
    with pytest.raises(InvalidInputError, match=r"nodes\.json: the clients of this folder are not in it; restore it"):
        _nodes_before(tmp_path, 2)


def test_a_resumed_runs_clients_never_hold_other_blocks_because_a_bit_flipped(tmp_path):
    path = tmp_path / "nodes.json"
    write_json(path, {"nodes": NODES})
    whole = path.read_bytes()
    for at in range(0, 8 * len(whole), 3):
        changed = bytearray(whole)
        changed[at // 8] ^= 1 << (at % 8)
        path.write_bytes(changed)
        with contextlib.suppress(InvalidInputError):
            assert _nodes_before(tmp_path, 2) == NODES  # such as a line break that became a blank


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:60]), "the file is damaged"),
        (lambda path: path.write_bytes(b""), "the file is damaged"),
        (lambda path: path.write_text(path.read_text(), encoding="utf-16"), "the file is damaged"),
        (lambda path: path.write_text("[]"), "the file is damaged"),
        (lambda path: path.write_text('{"nodes": "ab"}'), "the file is damaged"),
        (lambda path: path.write_text('{"nodes": [{"blocks": "9"}, {"blocks": 5}]}'), "the file is damaged"),
        (lambda path: path.write_text('{"nodes": [{"blocks": 0}, {"vram-gib": NaN}]}'), "the file is damaged"),
        (lambda path: path.write_text('{"nodes": [{"blocks": 9}]}'), "it describes 1 clients, and the run has 2"),
        (make_pipe, "a device or a pipe"),
        (lambda path: (path.unlink(), path.symlink_to("nowhere")), "a link to nothing"),
    ],
)
def test_clients_of_a_resumed_run_that_cannot_be_read_are_named_and_not_replaced(tmp_path, damage, says):
    path = tmp_path / "nodes.json"
    write_json(path, {"nodes": NODES})
    damage(path)
    with pytest.raises(InvalidInputError, match=f"nodes\\.json.*{says}.*--blocks or --vram-gib") as raised:
        _nodes_before(tmp_path, 2)
    assert "\n" not in str(raised.value)


def test_clients_with_rows_of_their_own_are_not_described_anew_by_their_capacities(tmp_path):
    """Only the file says whose rows lie where."""
    (tmp_path / "nodes.json").write_text("{")
    with pytest.raises(InvalidInputError, match=r"nodes\.json.*restore it from a copy$"):
        _nodes_before(tmp_path, 2, own_rows=True)


@pytest.mark.parametrize("content", ["", "[1]", '{"run": 3}'])
def test_how_to_resume_is_not_said_where_the_run_is_not_known(tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    assert _how_to_resume(tmp_path) == f"logs and replicas are in {tmp_path}"


def test_a_run_is_not_resumed_with_clients_that_cannot_be_read(make_config, server_settings, transport, tmp_path):
    done = serve(make_config(), server_settings, transport, runs_folder=tmp_path / "runs", force=True)
    path = tmp_path / "place" / "nodes.json"
    write_json(path, {"nodes": [{"blocks": blocks} for blocks in (9, 5, 3, 1)]})
    path.write_bytes(path.read_bytes()[:60])
    before = tree(tmp_path / "place")
    with pytest.raises(InvalidInputError, match=r"nodes\.json: not the clients of a federation"):
        run("up", "--resume", str(done.path), "--folder", str(path.parent))
    assert tree(tmp_path / "place") == before
