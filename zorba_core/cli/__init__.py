"""The ``zorba`` command. Each subcommand is a function whose parameters give its options. Torch loads when it runs.

With ``--json`` a command prints one JSON object on stdout and nothing else; progress and logs go to stderr. Exit
status: 0 done, 1 the run failed, 2 the request is wrong or infeasible.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import os
import re
import signal
import sys
from typing import NoReturn

import click
import typer

from zorba_core.cli.options import add_command
from zorba_core.errors import ZorbaError, one_line
from zorba_core.files import WRONG_PATH
from zorba_core.logs import shown
from zorba_core.version import __version__

# The module of each command; its function has the command's name.
_COMMANDS = {
    "allocate": "allocation",
    "vram": "allocation",
    "pareto": "allocation",
    "scenario": "allocation",
    "train": "training",
    "resume": "training",
    "replay": "use",
    "predict": "use",
    "evaluate": "use",
    "export": "use",
    "runs": "use",
    "get-model": "use",
    "task": "training",
    "federate": "training",
    "app": "places",
    "notebooks": "places",
}
_INTERRUPTED = 130  # click's status for a KeyboardInterrupt


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
        """Options before the command."""

    for name, module in _COMMANDS.items():
        function = getattr(importlib.import_module(f"{__name__}.{module}"), name.replace("-", "_"))
        add_command(app, name, function)
    return app


def main() -> None:
    """Entry point of ``zorba``."""
    run(build_app())


def run(app: typer.Typer) -> NoReturn:
    """Run a command and end the process. A :class:`ZorbaError` becomes one line on stderr and its exit status.

    So does an error of the machine: a path that cannot be used (2), a full disk or too little memory (1).
    """
    sleep_while_waiting()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # file names need not be Unicode; print \\udcff, as JSON does
            stream.reconfigure(errors="backslashreplace")
    try:
        with shown(always=True):
            status = app(standalone_mode=False)
    except ZorbaError as error:
        _leave(one_line(error), error.exit_status)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        _exit(error.exit_code)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "zorba"
        message = one_line(error.format_message()).removesuffix(".")  # contains the option, unlike str()
        message = re.sub(r"( Did you mean [^?]*\?)\1", r"\1", message)  # said twice: by typer and by click
        _leave(f"{message}; {command} --help lists the options", error.exit_code)
    except click.ClickException as error:
        _leave(one_line(error), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _leave("stopped", 1)
    except BrokenPipeError:  # the reader of the output (head, less) ended: not an error
        sys.stderr.close()
        _exit(0)
    except MemoryError:
        _leave("there is not enough memory for this request; ask for less", 1)
    except OSError as error:
        if error.errno is None:
            raise
        problem = (error.strerror or type(error).__name__).lower()
        where = "a file of this command" if error.filename is None else repr(os.fsdecode(error.filename))
        failure = ZorbaError(f"{where} cannot be used: {problem}")
        _leave(one_line(failure), 2 if error.errno in WRONG_PATH else 1)
    if status == _INTERRUPTED:  # Ctrl-C before the command installed its handler
        _leave("stopped", 1)
    _exit(status or 0)


def sleep_while_waiting() -> None:
    """Let torch's threads, which a process loads later, sleep while they wait for each other. By default they spin: two
    threads on a busy machine are then three times slower. A library may not decide this for its process."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def _leave(message: str, status: int) -> NoReturn:
    typer.echo(f"zorba: {message}", err=True)
    _exit(status)


def _exit(status: int) -> NoReturn:
    """End with this status. Ctrl-C is ignored while the interpreter cleans up: it would end the process without a
    message, though everything is done. Nor does it search a million objects of torch for garbage."""
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    atexit.register(gc.freeze)
    sys.exit(status)
