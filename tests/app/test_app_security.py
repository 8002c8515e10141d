"""What SECURITY.md claims of the dashboard: who reaches it, and that words from outside stay words."""

from __future__ import annotations

import ast
import functools
import glob
import http.client
import os
import shutil
import socket
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import sync_playwright
from streamlit.testing.v1 import AppTest

from app.shared.hosts import is_ours, refusal
from tests.app.serving import CHROMIUM_ARGUMENTS, server_process
from tests.app.written_runs import see, texts, write_run

APP = Path(__file__).resolve().parents[2] / "app"
HTML = "<img src=x onerror=alert(1)>"
MARKDOWN = "[x](javascript:alert(1)) **b** :material/star:"


def calls() -> list[tuple[str, ast.Call]]:
    """(file, call) of every call in the app."""
    return [
        (str(path.relative_to(APP)), node)
        for path in sorted(APP.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    ]


def test_html_is_written_in_three_places_and_never_from_names():
    html = [
        path
        for path, call in calls()
        if (isinstance(call.func, ast.Attribute) and call.func.attr == "html")
        or any(word.arg == "unsafe_allow_html" for word in call.keywords)
    ]
    # A style sheet, a style sheet, and a bar of counted verdicts: none shows a name, a label or an upload.
    assert html == ["screens/paper/paper.py", "screens/toy/toy.py", "shared/components.py"]


def test_processes_are_started_from_lists_and_never_through_a_shell():
    started = [
        (path, call)
        for path, call in calls()
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in ("Popen", "run", "call", "check_call", "check_output", "system", "popen")
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id in ("subprocess", "os")
    ]
    assert started
    for path, call in started:
        assert call.func.attr not in ("system", "popen"), path
        assert not any(word.arg == "shell" for word in call.keywords), path
        assert not isinstance(call.args[0], ast.Constant | ast.JoinedStr), path


@pytest.fixture
def runs(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def app(root, runs, tmp_path, monkeypatch):
    monkeypatch.chdir(root)
    monkeypatch.setenv("ZORBA_RUNS", str(runs))
    monkeypatch.setenv("ZORBA_EXPERIMENTS", str(tmp_path / "none"))
    return AppTest.from_file(str(root / "app" / "main.py"), default_timeout=60)


@pytest.mark.parametrize("name", [HTML, MARKDOWN])
def test_words_from_a_run_folder_are_never_markdown(app, runs, name):
    write_run(runs, [0.5, 0.6], dataset=name, model=name, label_words=[name, name])
    (runs / "stray").mkdir()
    see(app)
    assert not app.exception
    assert name not in texts(app)  # in tables, which show text as text, and in Markdown only with its signs escaped


@pytest.fixture(scope="module")
def outside():
    """Stands for the internet: a server with its address for a proxy would ask it for everything."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)
        yield listening


def only_way_out(outside: socket.socket) -> dict[str, str]:
    proxy = f"http://127.0.0.1:{outside.getsockname()[1]}"
    return {name: proxy for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")}


@pytest.fixture(scope="module")
def server(outside):
    with server_process(variables=only_way_out(outside)) as (address, pid):
        yield address.removeprefix("http://"), pid


def status_of(server: str, origin: str | None, host: str | None = None) -> int:
    """Of the answer to a page that wants to speak to the dashboard."""
    connection = http.client.HTTPConnection(server, timeout=30)
    headers = {
        "Host": host or server,
        **({} if origin is None else {"Origin": origin}),
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Protocol": "streamlit",
    }
    connection.putrequest("GET", "/_stcore/stream", skip_host=True)
    for header, value in headers.items():
        connection.putheader(header, value)
    connection.endheaders()
    try:
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.slow
def test_pages_of_other_origins_cannot_speak_to_the_dashboard(server):
    address, _ = server
    port = int(address.split(":")[1])
    assert status_of(address, f"http://{address}") == 101
    assert status_of(address, f"http://localhost:{port}", f"localhost:{port}") == 101
    assert status_of(address, None) == 101  # a program's
    strangers = ("http://evil.example", "https://localhost.evil.example", "null", "http://127.0.0.1.evil.example")
    neighbours = ("http://127.0.0.1:9", "http://127.0.0.1", f"http://localhost:{port}", "http://localhost:3000")
    for origin in (*strangers, *neighbours):
        assert status_of(address, origin) == 403, origin
    assert status_of(address, f"http://evil.example:{port}", f"evil.example:{port}") == 403


@pytest.mark.slow
def test_nobody_on_the_internet_is_asked_whose_page_it_is(server, outside):
    """Streamlit alone would ask checkip.amazonaws.com for this machine's address."""
    address, _ = server
    status_of(address, "http://evil.example")
    with pytest.raises(BlockingIOError):
        outside.accept()


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/", "/runs", "/_stcore/health", "/_stcore/host-config"])
def test_no_page_of_others_may_frame_the_dashboard_or_read_it(server, path):
    address, _ = server

    def asked(**headers):
        connection = http.client.HTTPConnection(address, timeout=30)
        connection.request("GET", path, headers=headers)
        return connection.getresponse()

    answer = asked()
    assert answer.status == 200
    assert answer.headers.get_all("X-Frame-Options") == ["SAMEORIGIN"]
    assert "frame-ancestors 'self'" in answer.headers["Content-Security-Policy"]
    refused = asked(Origin="http://127.0.0.1:9")
    assert refused.status == 403
    assert refused.headers["X-Frame-Options"] == "SAMEORIGIN"
    assert asked(Host="evil.example").status == 403


@pytest.mark.slow
def test_streamlit_run_has_the_same_guard(outside):
    program = ("streamlit", "run", "app/main.py", "--server.port")
    with server_process(program=program, variables=only_way_out(outside)) as (address, _):
        assert status_of(address.removeprefix("http://"), "http://127.0.0.1:9") == 403
        with pytest.raises(BlockingIOError):
            outside.accept()


@pytest.mark.parametrize(
    ("host", "origin", "answered"),
    [
        ("127.0.0.1:8501", None, True),
        ("127.0.0.1:8501", "http://127.0.0.1:8501", True),
        ("LOCALHOST:8501", "http://localhost:8501", True),
        ("[::1]:8501", "http://[::1]:8501", True),
        ("127.0.0.1:8501", "http://localhost:8501", False),
        ("127.0.0.1:8501", "http://127.0.0.1:8502", False),
        ("127.0.0.1:8501", "http://127.0.0.1", False),
        ("127.0.0.1:8501", "null", False),
        ("127.0.0.1:8501", "", False),
        ("127.0.0.1:8501", "http://[127.0.0.1:8501", False),
        ("127.0.0.1:8501", "http://a@127.0.0.1:8501", False),
        ("127.0.0.1:8501", "file://127.0.0.1:8501", False),
        ("evil.example:8501", "http://evil.example:8501", False),
        ("", None, False),
        (None, None, False),
    ],
)
def test_an_origin_is_ours_with_name_and_port(host, origin, answered):
    assert (refusal(host, origin) == "") == answered


def spied(look, place, looked_up):
    def looks(path=".", *arguments, **options):
        if place in str(path):
            looked_up.append(str(path))
        return look(path, *arguments, **options)

    return looks


@pytest.mark.parametrize(
    ("page", "address", "key"),
    [
        ("train", {"train_dataset": "own", "train_data": "{place}/**/*.csv"}, "train_data"),
        ("train", {"train_dataset": "own", "train_data": "{place}/rows.csv"}, "train_data"),
        ("train", {"train_model": "folder", "train_folder": "{place}/model"}, "train_folder"),
    ],
)
def test_a_place_that_a_link_names_is_looked_up_when_the_reader_says_so(app, tmp_path, monkeypatch, page, address, key):
    place, looked_up = str(tmp_path / "named-by-a-link"), []
    for module, name in ((os, "stat"), (os, "lstat"), (os, "scandir"), (os, "listdir"), (glob, "glob")):
        monkeypatch.setattr(module, name, spied(getattr(module, name), place, looked_up))
    app.query_params.update(clients="8", **{name: value.format(place=place) for name, value in address.items()})
    app.switch_page(f"screens/{page}/{page}.py").run()
    assert not app.exception
    assert app.text_input(key=key).value == address[key].format(place=place)
    assert looked_up == []
    app.button(key=f"agree_{key}").click().run()
    assert not app.exception
    assert looked_up != []
    assert f"agree_{key}" not in [button.key for button in app.button]


@pytest.mark.parametrize("host", ["127.0.0.1:8501", "localhost", "LOCALHOST:1", "[::1]:8501", "10.0.0.7:80"])
def test_this_machine_has_these_names(host):
    assert is_ours(host)


@pytest.mark.parametrize("host", ["evil.example:8501", "localhost.evil.example", "127.0.0.1.evil.example", "", "[x]:1"])
def test_other_names_are_not_this_machines_unless_they_are_given(host, monkeypatch):
    assert not is_ours(host)
    monkeypatch.setenv("ZORBA_HOSTS", "evil.example, other.example")
    assert is_ours(host) == (host == "evil.example:8501")


@pytest.mark.browser
@pytest.mark.slow
def test_a_name_of_somebody_else_that_leads_here_is_shown_nothing(server):
    """DNS rebinding: to a browser the page and the dashboard then have one origin."""
    address, _ = server
    with sync_playwright() as playwright:
        arguments = [*CHROMIUM_ARGUMENTS[:-1], "--host-resolver-rules=MAP evil.example 127.0.0.1"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        try:
            page = browser.new_page()
            page.goto(f"http://evil.example:{address.split(':')[1]}/")
            page.wait_for_selector("text=reached under a name that it does not know", timeout=90_000)
            assert page.locator("[data-testid=stMetric]").count() == 0
            assert page.locator("[data-testid=stSidebarNav]").count() == 0
        finally:
            browser.close()


@pytest.mark.browser
@pytest.mark.slow
def test_a_page_of_another_origin_frames_nothing_of_the_dashboard(server, browser, tmp_path):
    address, _ = server
    (tmp_path / "index.html").write_text(f'<iframe src="http://{address}/runs"></iframe><p>end</p>')
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{other.server_port}/", wait_until="load")
        page.wait_for_timeout(1500)
        assert page.frames[1].url.startswith("chrome-error:")
        page.close()
        other.shutdown()


@pytest.mark.slow
def test_the_dashboard_listens_on_loopback_alone(server):
    _, pid = server
    listening = [c.laddr.ip for c in psutil.Process(pid).net_connections() if c.status == psutil.CONN_LISTEN]
    assert set(listening) == {"127.0.0.1"}
