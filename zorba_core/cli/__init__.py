"""The ``zorba`` command. One module per command family; each has ``register(app)`` and imports torch only when it runs.

Every command that computes takes ``--json`` and then prints one JSON object on stdout and nothing else; progress and
logs go to stderr. Exit status: 0 done, 1 the run failed, 2 the request is wrong or infeasible.
"""

from __future__ import annotations

import importlib
import sys

import typer

from zorba_core import __version__
from zorba_core.errors import ZorbaError

_COMMAND_MODULES = (
    "allocate",
    "vram",
    "pareto",
    "scenario",
    "train",
    "resume",
    "tune",
    "runs",
    "doctor",
    "make_base",
    "bench",
    "experiment",
    "report",
    "federation",
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"zorba {__version__}")
        raise typer.Exit


def build_app() -> typer.Typer:
    """Assemble the command from its modules."""
    app = typer.Typer(
        name="zorba",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        help="Who trains which transformer blocks? Allocation, trade-offs and zeroth-order federated fine-tuning.",
    )

    @app.callback()
    def _root(
        version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show version."),
    ) -> None:
        """Options that stand before the command."""

    for name in _COMMAND_MODULES:
        importlib.import_module(f"{__name__}.{name}").register(app)
    return app


def main() -> None:
    """Entry point: an error raised on purpose becomes one line on stderr and its exit status."""
    try:
        build_app()()
    except ZorbaError as error:
        typer.echo(f"zorba: {error}", err=True)
        sys.exit(error.exit_status)
    except BrokenPipeError:  # the reader of our output (head, less) left: not an error of ours
        sys.stderr.close()
        sys.exit(0)
