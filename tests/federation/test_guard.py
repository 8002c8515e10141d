"""What other machines, other users and web pages may ask a SuperLink or a node for; and which app a node runs."""

from __future__ import annotations

import asyncio
import io
import os
import socket
import subprocess
import time
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("flwr")

import httpx

from zorba_core.errors import InvalidInputError
from zorba_core.federation.flower import guard
from zorba_core.federation.flower.app_folder import check_app, write_app
from zorba_core.federation.flower.deployment import Deployment, _command
from zorba_core.federation.flower.guard import FLEET, Guard, owner_of
from zorba_core.federation.flower.superlink import check_reach

START_RUN = "/v1/control/start-run"
ELSEWHERE = ("203.0.113.7", 40_000)


@pytest.fixture
def connection():
    """Both ends of a connection of this process's on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            yield client.getsockname(), server.getsockname()


def asked(path: str, client, server=("127.0.0.1", 8000), open_paths=(FLEET,), **headers: str) -> int:
    """Status of a request; 200 where the service behind the guard is reached."""
    sent = []

    async def service(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        sent.append(message)

    headers = {"host": f"{server[0]}:{server[1]}", **headers}
    scope = {
        "type": "http",
        "path": path,
        "client": client,
        "server": server,
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
    }
    asyncio.run(Guard(service, open_paths)(scope, None, send))
    return sent[0]["status"]


def test_other_machines_reach_the_fleet_s_half_alone():
    assert asked(f"{FLEET}pull-messages", ELSEWHERE) == 200
    for path in (START_RUN, "/v1/control/register-node", "/v1/runtime/pull-task-input", "/docs", "/", "/v1/fleet"):
        assert asked(path, ELSEWHERE) == 403
    assert asked(f"{FLEET}pull-messages", ELSEWHERE, open_paths=()) == 403  # nodes are not authenticated


def test_the_own_user_on_this_machine_may_ask_for_everything(connection):
    client, server = connection
    assert owner_of(client, server) == os.getuid()
    assert asked(START_RUN, client, server) == 200
    assert asked(START_RUN, client, server, host=f"localhost:{server[1]}") == 200


def test_another_user_of_this_machine_reaches_the_fleet_s_half_alone(connection, monkeypatch):
    client, server = connection
    monkeypatch.setattr(guard, "owner_of", lambda *ends: os.getuid() + 1)
    assert asked(START_RUN, client, server) == 403
    assert asked(f"{FLEET}activate-node", client, server) == 200


def test_a_connection_that_the_kernel_does_not_know_is_nobody_s(connection):
    (address, _), server = connection
    assert owner_of((address, 1), server) is None
    assert asked(START_RUN, (address, 1), server) == 403


def test_a_superlink_has_an_address():
    check_reach("0.0.0.0", authenticated=True)
    check_reach("localhost", authenticated=False)
    with pytest.raises(InvalidInputError, match="give an address of this machine"):
        check_reach("server.example", authenticated=True)


def test_a_connection_that_was_closed_behind_its_request_is_nobody_s():
    """The kernel's table would say that it is root's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        ends = client.getsockname(), server.getsockname()
        accepted, _ = server.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)  # request and end in one
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        client.close()
        with accepted:
            assert owner_of(*ends) is None
            assert asked(START_RUN, *ends) == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site"},
        {"host": "evil.example:8000"},
        {"host": "localhost.evil.example"},
        {"host": "127.0.0.1.evil.example"},
        {"host": ""},
        {"x_forwarded_for": "127.0.0.1"},
    ],
)
def test_what_a_page_or_a_proxy_sends_from_this_machine_is_refused(connection, headers):
    client, server = connection
    assert asked(START_RUN, client, server, **headers) == 403


@pytest.mark.parametrize("host", ["[::1]:8000", "LOCALHOST", "127.0.0.1", "10.1.2.3:8000"])
def test_names_of_this_machine(monkeypatch, host):
    monkeypatch.setattr(guard, "owner_of", lambda *ends: os.getuid())
    assert asked(START_RUN, ("10.1.2.3", 1), ("10.1.2.3", 8000), host=host) == 200
    assert asked(START_RUN, ("10.1.2.4", 1), ("10.1.2.3", 8000), host=host) == 403


def packed(folder: Path, **changed: str | None) -> bytes:
    """The app as Flower packs it, with files changed, added, or taken out."""
    from flwr.cli.build import build_fab_from_disk

    app = write_app(folder / "request.json")
    for name, text in changed.items():
        name = name.replace("__", ".")
        (app / name).unlink() if text is None else (app / name).write_text(text)
    return build_fab_from_disk(app)


def test_the_app_that_is_written_is_the_app_that_is_known(tmp_path):
    check_app(packed(tmp_path))
    check_app(packed(tmp_path / 'a "place" \\ with ünusual letters \U0001f680 \x7f'))


CLIENT = "from zorba_core.federation.flower import client_app\n\napp = client_app.app\n"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"zorba_client__py": CLIENT + "print(1)\n"}, "other code"),
        ({"zorba_server__py": CLIENT}, "other code"),
        ({"more__py": ""}, "has the files"),
    ],
)
def test_an_app_with_other_code_is_refused(tmp_path, changed, reason):
    with pytest.raises(InvalidInputError, match=reason):
        check_app(packed(tmp_path, **changed))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"zorba_client:app"', '"os:system"'),
        ('dependencies = ["flwr"]', 'dependencies = ["flwr", "evil"]'),
        ("[tool.flwr.app.config]", '[tool.flwr.app.config]\nmore = "1"'),
        ('version = "1.0.0"', 'version = "1.0.1"'),
    ],
)
def test_an_app_with_other_settings_is_refused(tmp_path, old, new):
    settings = (write_app(tmp_path / "request.json") / "pyproject.toml").read_text()
    assert old in settings
    with pytest.raises(InvalidInputError, match="other settings"):
        check_app(packed(tmp_path, pyproject__toml=settings.replace(old, new)))


def repacked(content: bytes, method: int = zipfile.ZIP_DEFLATED, listed: str = "") -> bytes:
    """The packed app, with more in Flower's list of its files."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(packed, "w", method) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).decode() + (listed if name == ".info/CONTENT" else ""))
    return packed.getvalue()


def test_an_app_whose_list_names_a_file_of_the_client_is_refused(tmp_path):
    """Flower compares every file of the list with its sum: the answer would tell what the file holds."""
    content = packed(tmp_path)
    check_app(repacked(content))
    with pytest.raises(InvalidInputError, match="lists other files"):
        check_app(repacked(content, listed="\n/etc/hostname," + "0" * 64 + ",8"))
    with pytest.raises(InvalidInputError, match="compressed in another way"):
        check_app(repacked(content, zipfile.ZIP_LZMA))


def test_what_is_no_app_is_refused_before_it_is_unpacked(tmp_path):
    whole = packed(tmp_path)
    for content in (b"", b"PK", whole[:200], whole[:-30], bytes(len(whole))):
        with pytest.raises(InvalidInputError, match="cannot be read"):
            check_app(content)
    names = ("pyproject.toml", "zorba_client.py", "zorba_server.py", ".info/CONTENT")
    large = io.BytesIO()
    with zipfile.ZipFile(large, "w", zipfile.ZIP_DEFLATED) as file:
        for name in names:
            file.writestr(name, b" " * 50_000_000)
    with pytest.raises(InvalidInputError, match="too large"):
        check_app(large.getvalue())


def write_hostile_app(folder: Path) -> tuple[Path, list[Path]]:
    """An app under our name that leaves a file where it runs; the app, and those files."""
    marks = [folder / f"{side}-ran" for side in ("server", "client")]
    app = write_app(folder / "request.json")
    for side, mark in zip(("server", "client"), marks, strict=True):
        path = app / f"zorba_{side}.py"
        path.write_text(f"open({str(mark)!r}, 'w').close()\n" + path.read_text())
    (app / "zorba_server.py").write_text(
        f"open({str(marks[0])!r}, 'w').close()\n"
        "import time\n"
        "from flwr.app import Message, RecordDict\n"
        "from flwr.serverapp import ServerApp\n"
        "app = ServerApp()\n"
        "@app.main()\n"
        "def main(grid, context):\n"
        "    until = time.monotonic() + 60\n"
        "    while not (nodes := list(grid.get_node_ids())) and time.monotonic() < until:\n"
        "        time.sleep(0.2)\n"
        "    messages = [Message(RecordDict(), message_type='train', dst_node_id=node) for node in nodes]\n"
        "    grid.send_and_receive(messages, timeout=15)\n"
    )
    return app, marks


def test_a_node_does_not_run_the_code_that_a_server_sends(tmp_path):
    app, (server_ran, client_ran) = write_hostile_app(tmp_path)
    with Deployment(tmp_path / "deployment") as deployment:
        port = str(deployment.port("superlink"))
        # A server of the attacker's own: nothing guards it.
        deployment.start_superlink()
        deployment.kill("superlink")
        deployment.start("superlink", [_command("flower-superlink"), "--insecure", "--port", port])
        deployment._wait_for_port("superlink", int(port))
        deployment.start_node(0, {"blocks": 1})
        deployment.submit(app)
        log, until = deployment.folder / "node-0" / "log.txt", time.monotonic() + 90
        while "refused: its app has other code" not in log.read_text() and time.monotonic() < until:
            time.sleep(0.2)
        assert "refused: its app has other code" in log.read_text()
        assert deployment.running("node-0")
        time.sleep(2)
    assert server_ran.exists()  # so the message was sent by that app
    assert not client_ran.exists()


def test_a_web_page_cannot_start_a_run_on_a_superlink_of_this_machine(tmp_path):
    from flwr.proto.control_pb2 import StartRunRequest
    from flwr.proto.fab_pb2 import Fab

    content = packed(tmp_path)
    body = StartRunRequest(fab=Fab(hash_str="", content=content)).SerializeToString()
    with Deployment(tmp_path / "deployment") as deployment:
        deployment.start_superlink()
        url = f"http://127.0.0.1:{deployment.port('superlink')}{START_RUN}"
        page = {"origin": "http://evil.example", "content-type": "text/plain"}
        answer = httpx.post(url, content=body, headers=page)
    assert (answer.status_code, answer.text) == (403, "refused: a browser asks, and no page has any business here\n")


@pytest.mark.parametrize("command", ["superlink", "node"])
@pytest.mark.parametrize("options", [["--no-such-option"], ["--port", "x"], ["more"], ["--port", str(10**30)]])
def test_options_that_flower_does_not_take_are_one_line(command, options):
    done = subprocess.run([_command("zorba"), "federation", command, *options], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert f"flower-super{command.removeprefix('super')} --help names the options" in done.stderr


def test_a_superlink_that_others_reach_needs_nodes_with_keys():
    options = ["--insecure", "--host", "0.0.0.0", "--port", "18123"]
    done = subprocess.run([_command("zorba"), "federation", "superlink", *options], capture_output=True, text=True)
    assert done.returncode == 2
    said = done.stderr.splitlines()[-1]
    assert said.startswith("zorba: a SuperLink that listens on 0.0.0.0 needs certificates and registered nodes")
