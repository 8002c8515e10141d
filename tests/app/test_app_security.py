"""What SECURITY.md claims of the dashboard: who reaches it, and that words from outside stay words."""

from __future__ import annotations

import ast
import http.client
import tomllib
from pathlib import Path

import psutil
import pytest
from streamlit.testing.v1 import AppTest

from tests.app.serving import server_process
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
def server():
    with server_process() as (address, pid):
        yield address.removeprefix("http://"), pid


@pytest.mark.slow
def test_the_dashboard_listens_on_loopback_alone(server):
    _, pid = server
    listening = [c.laddr.ip for c in psutil.Process(pid).net_connections() if c.status == psutil.CONN_LISTEN]
    assert set(listening) == {"127.0.0.1"}


@pytest.mark.slow
def test_a_name_of_somebody_else_that_leads_here_is_answered_nothing(server):
    """DNS rebinding: to a browser that page and the dashboard would have one origin."""
    address, _ = server
    for host, status in ((address, 200), (f"localhost:{address.split(':')[1]}", 200), ("evil.example", 400)):
        connection = http.client.HTTPConnection(address, timeout=30)
        connection.request("GET", "/", headers={"Host": host})
        assert connection.getresponse().status == status, host


def test_nothing_about_its_use_is_sent_anywhere(root):
    config = tomllib.loads((root / "app" / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert config["browser"]["gatherUsageStats"] is False
    assert config["server"]["address"] == "127.0.0.1"
