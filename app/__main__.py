"""`python -m app [--port 8501]`: the dashboard, or one sentence when its port is taken.

`streamlit run app/main.py` loads what pages need when somebody first opens one. Here it is loaded beforehand.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import pkgutil
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

ADDRESS = "127.0.0.1"
_MAIN = Path(__file__).with_name("main.py")
_START_SECONDS = 60.0  # that a server may take until it listens


def main(arguments: list[str] | None = None) -> int:
    """Serve until stopped; return 2 when that cannot be."""
    parser = argparse.ArgumentParser(prog="python -m app", description="The ZorBA dashboard, on this machine only.")
    parser.add_argument("--port", type=int, default=8501, help="default: 8501")
    port = parser.parse_args(arguments).port
    taken = port_taken(port)
    if taken:
        print(f"zorba: {taken}", file=sys.stderr)
        return 2
    from streamlit.web import cli

    threading.Thread(target=_load_pages, name="zorba-load-pages", daemon=True).start()
    cli.main(["run", str(_MAIN), "--server.address", ADDRESS, "--server.port", str(port)], prog_name="streamlit")
    return 0


def _load_pages() -> None:
    """Load what the pages need, once the server listens: a first visitor would wait two seconds for it."""
    from streamlit import runtime

    until = time.monotonic() + _START_SECONDS
    while not runtime.exists() and time.monotonic() < until:
        time.sleep(0.05)
    with contextlib.suppress(Exception):  # a page that fails to load says so where it is opened
        from app import screens
        from app.shared.scenario import Scenario
        from app.shared.study import study

        for module in pkgutil.walk_packages(screens.__path__, "app.screens."):
            *_, folder, name = module.name.split(".")
            if folder != name:  # that is the page itself, which only Streamlit runs
                importlib.import_module(module.name)
        study(Scenario())


def port_taken(port: int) -> str:
    """Why the server cannot listen there and what to do, in one line; empty when it can."""
    if not 1 <= port <= 65535:
        return f"port is {port}; it must be from 1 to 65535"
    another = f"make app PORT={port + 1 if port < 65535 else 8501}"
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does: a port just left is free
        try:
            probe.bind((ADDRESS, port))
        except PermissionError:
            return f"port {port} is reserved for the system; choose one above 1023, e.g. {another}"
        except OSError:
            if _is_dashboard(port):
                return f"a dashboard is already there: open http://{ADDRESS}:{port}, or start a second one: {another}"
            return f"port {port} is in use by another program; choose another: {another}"
    return ""


def _is_dashboard(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{ADDRESS}:{port}/_stcore/health", timeout=1) as answer:
            return answer.read(10) == b"ok"
    except (urllib.error.URLError, OSError, ValueError):
        return False


if __name__ == "__main__":
    sys.exit(main())
