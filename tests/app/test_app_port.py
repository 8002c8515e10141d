"""What starting the dashboard says when its port is taken."""

from __future__ import annotations

import http.server
import socket
import subprocess
import sys
import threading

import pytest

from app.__main__ import port_taken


@pytest.fixture
def listening():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def test_a_port_in_use_is_one_sentence_with_the_next_step(listening, root):
    done = subprocess.run(
        [sys.executable, "-m", "app", "--port", str(listening)], capture_output=True, text=True, cwd=root, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        f"zorba: port {listening} is in use by another program; choose another: make app PORT={listening + 1}\n"
    )


def test_a_dashboard_that_runs_already_is_named_by_its_address():
    class Health(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_):
            """No line on the tests' screen."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Health) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        port = server.server_address[1]
        try:
            assert f"open http://127.0.0.1:{port}" in port_taken(port)
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_number_that_is_no_port_is_refused(port):
    assert "from 1 to 65535" in port_taken(port)


def test_a_free_port_is_taken_by_nobody():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    assert port_taken(free) == ""


def test_pages_are_loaded_before_the_first_visit_and_no_training_is(root):
    program = (
        "import sys; from app import __main__ as start; start._START_SECONDS = 0; start._load_pages()\n"
        "print(sorted({'app.screens.tradeoff.plot', 'app.screens.runs.curves', 'app.screens.tradeoff.tradeoff', "
        "'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root, check=True)
    assert done.stdout.strip() == "['app.screens.runs.curves', 'app.screens.tradeoff.plot']"
