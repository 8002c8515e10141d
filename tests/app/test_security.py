"""What SECURITY.md claims of the dashboard: who reaches it, and that words from outside stay words."""

from __future__ import annotations

import http.client
import json
import shutil
import tomllib

import psutil
import pytest

from tests.app.conftest import texts
from tests.app.serving import server_process

STORED = "sst2-opt-mini-3a199a00"


@pytest.fixture(scope="module")
def server():
    with server_process() as (address, pid):
        yield address.removeprefix("http://"), pid


def test_html_is_written_in_one_place_and_never_from_names(root):
    files = {path.name: path.read_text(encoding="utf-8") for path in (root / "app").rglob("*.py")}
    assert [name for name, text in files.items() if "st.html(" in text or "unsafe_allow_html" in text] == ["ui.py"]


@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>", "[x](javascript:alert(1)) **b** :material/star:"])
def test_words_from_a_run_folder_are_never_markdown(app, root, runs, name):
    folder = runs / "run"
    shutil.copytree(root / "artifacts" / "runs" / STORED, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "dataset": name, "model": name}))
    (runs / name.replace("/", "_")).mkdir()
    said = texts(app.switch_page("views/runs.py").run())
    assert name not in said  # in tables, which show text as text, and in Markdown only with its signs escaped


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
        connection = http.client.HTTPConnection(address, timeout=300)
        connection.request("GET", "/", headers={"Host": host})
        assert connection.getresponse().status == status, host


@pytest.mark.slow
def test_the_first_answer_names_the_script_that_draws_figures(server):
    connection = http.client.HTTPConnection(server[0], timeout=300)
    connection.request("GET", "/")
    answer = connection.getresponse()
    answer.read()
    file = answer.headers["link"].partition(">")[0].removeprefix("<")
    connection.request("GET", file)
    assert connection.getresponse().status == 200


def test_nothing_about_its_use_is_sent_anywhere(root):
    config = tomllib.loads((root / "app" / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert config["browser"]["gatherUsageStats"] is False
    assert config["server"]["address"] == "127.0.0.1"
