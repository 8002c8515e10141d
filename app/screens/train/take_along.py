"""The run that the form describes, as something to run elsewhere: a command, Python, a search for a learning rate."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

import streamlit as st

from app.screens.train import choices
from app.screens.train.processes import train_command
from zorba_core.allocation import Allocation, allocation_to_bytes
from zorba_core.cli.options import flags_of
from zorba_core.data.label_words import listed
from zorba_core.engine.settings import TrainSettings
from zorba_core.fields import declared

_ALLOCATION_FILE = "allocation.npz"


@dataclass(frozen=True)
class TrainRequest:
    """A run as the form describes it. ``options`` are those of ``zorba train``; without an allocation every client
    trains every block."""

    allocation: Allocation | None
    options: dict[str, Any]
    title: str


def take_along(request: TrainRequest) -> None:
    """What to copy, each in a tab of its own."""
    options = choices.command_options(request.options)
    file = None if request.allocation is None else _ALLOCATION_FILE
    with st.expander("Take it with you: command, Python, a learning rate", icon=":material/code:"):
        command, python, tune = st.tabs(["Copy as command", "Copy as Python", "Find a learning rate"])
        command.code(shlex.join(train_command(file, options)), language="bash", wrap_lines=True)
        python.code(as_python(request), language="python")
        with tune:
            st.caption("Judges rates by their loss at the end, on rows held out from the clients. Minutes on one core.")
            tune_options = {name: value for name, value in options.items() if name in flags_of("tune")}
            st.code(shlex.join(train_command(file, tune_options, verb="tune")), language="bash", wrap_lines=True)
        if request.allocation is not None:
            st.download_button(
                "Allocation (NPZ)",
                lambda: allocation_to_bytes(request.allocation, "npz"),
                _ALLOCATION_FILE,
                "application/octet-stream",
                key="train_npz",
                on_click="ignore",
                icon=":material/download:",
                help="The file that these read.",
            )


def as_python(request: TrainRequest) -> str:
    """A program that makes the same run."""
    settings = {field.option: name for name, field in declared(TrainSettings).items()}
    options = choices.command_options(request.options).items()
    given = "\n".join(f"    {settings[name]}={value!r}," for name, value in options if name in settings)
    allocation, who = 'allocation_from_file("allocation.npz")  # the download', "allocation"
    if request.allocation is None:
        allocation = f"None  # {request.options['method']}: every client trains every block"
        who = f"allocation, num_clients={request.options['clients']}"
    forced = ", force=True" if request.options.get("force") else ""
    return (
        "import zorba_core as zorba\n"
        + ("from zorba_core.allocation import allocation_from_file\n" if request.allocation is not None else "")
        + f"\nallocation = {allocation}\n"
        f"settings = zorba.TrainSettings(\n{given}\n)\n"
        "run = zorba.fine_tune(\n"
        f"    {who}, model={request.options['model']!r}, {_rows(request.options)}, settings=settings{forced}\n"
        ")\n"
        'print(run.summary["initial_accuracy"], "->", run.summary["final_accuracy"], run.path)\n'
    )


def _rows(options: dict[str, Any]) -> str:
    """The argument of ``fine_tune`` that says which rows."""
    if "data" not in options:
        return f"dataset={options['dataset']!r}"
    said = {name: options[name] for name in ("label", "answer", "prompt", "client") if options.get(name)}
    if options.get("label_words"):
        said["label_words"] = listed(options["label_words"])
    return ", ".join(f"{name}={value!r}" for name, value in {"data": options["data"], **said}.items())
