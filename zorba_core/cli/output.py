"""The output of commands: one JSON object on stdout with ``--json``, a readable table without it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import typer

from zorba_core.files import to_json

JSON_OPTION = typer.Option(False, "--json", help="Print one JSON object on stdout and nothing else.")


def emit(result: dict[str, Any], as_json: bool, lines: Iterable[str]) -> None:
    """Print ``result`` as JSON, or ``lines`` for people."""
    typer.echo(to_json(result) if as_json else "\n".join(lines))
