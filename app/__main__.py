"""`python -m app [--port 8501]`: the dashboard, on this machine only."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from zorba_core.cli import sleep_while_waiting


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m app", description="The ZorBA dashboard, on this machine only.")
    parser.add_argument("--port", type=int, default=8501, help="default: 8501")
    port = parser.parse_args().port
    try:
        from streamlit.web import cli
    except ModuleNotFoundError:
        sys.exit("zorba: Streamlit is not installed here: pip install -c constraints.txt torch==2.13.0 -e '.[app]'")
    sleep_while_waiting()
    script = str(Path(__file__).with_name("main.py"))
    cli.main(["run", script, "--server.address", "127.0.0.1", "--server.port", str(port)], prog_name="streamlit")


if __name__ == "__main__":
    main()
