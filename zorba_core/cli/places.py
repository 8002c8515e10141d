"""``zorba app`` and ``zorba notebooks``: the dashboard and the walkthroughs, from a checkout or from a wheel."""

from __future__ import annotations

import shutil
from pathlib import Path

import typer

from zorba_core import installed
from zorba_core.cli.options import JSON_OPTION, emit
from zorba_core.errors import MissingDataError

FIRST = "00_quickstart.ipynb"
# Not for the copy: how the project stores outputs, and what Python and Jupyter leave behind.
_LEFT_OUT = shutil.ignore_patterns("_execute.py", "__pycache__", ".ipynb_checkpoints", "artifacts")


def app(
    port: int = typer.Option(8501, min=1, max=65535, help="Port of the page."),
    address: str = typer.Option("127.0.0.1", help="Address to listen on; 0.0.0.0 inside a container."),
) -> None:
    """Open the dashboard. It answers only to the names 127.0.0.1 and localhost; Ctrl-C ends it."""
    _check("zorba app", "app", "streamlit", "plotly", "psutil")
    from streamlit.web import cli

    where = ["--server.address", address, "--server.port", str(port)]
    cli.main(["run", str(installed.dashboard()), *where], prog_name="streamlit")


def notebooks(
    folder: Path = typer.Argument(..., help="A new folder for the notebooks and their data."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Copy the walkthroughs into a folder, where they can be run and changed."""
    from zorba_core.files import atomic_folder, check_new_folder

    check_new_folder(folder)
    with atomic_folder(folder) as made:
        shutil.copytree(installed.notebooks(), made, ignore=_LEFT_OUT, dirs_exist_ok=True)
    copied = sorted(path.name for path in folder.glob("*.ipynb"))
    lines = [f"{folder}: {len(copied)} notebooks", f"  open them with: jupyter lab '{folder / FIRST}'"]
    if installed.missing_packages("jupyterlab", "plotly"):
        lines.append(f"  JupyterLab is not installed here: {installed.install_command('notebooks')}")
    emit({"folder": str(folder), "notebooks": copied}, as_json, lines)


def _check(command: str, extra: str, *modules: str) -> None:
    """Raise if a command's optional packages are not installed.

    Raises:
        MissingDataError: with the command that installs them.
    """
    if missing := installed.missing_packages(*modules):
        raise MissingDataError(
            f"{command} needs {', '.join(missing)}, not installed here: {installed.install_command(extra)}"
        )
