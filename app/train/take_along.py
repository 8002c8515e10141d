"""The run that the form describes, as something to run elsewhere: a command, Python, a search for a learning rate."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

import streamlit as st

from app.processes import train_command
from app.train import choices
from zorba_core.allocation import Allocation, allocation_to_bytes

_ALLOCATION_FILE = "allocation.npz"


@dataclass(frozen=True)
class Request:
    """A run as the form describes it. ``options`` are those of ``zorba train``."""

    allocation: Allocation
    options: dict[str, Any]
    title: str


def take_along(request: Request) -> None:
    """What to copy, each in a tab of its own."""
    options = choices.command_options(request.options)
    with st.expander("Take it with you: command, Python, a learning rate", icon=":material/code:"):
        command, python, tune = st.tabs(["Copy as command", "Copy as Python", "Find a learning rate"])
        with command:
            st.code(shlex.join(train_command(_ALLOCATION_FILE, options)), language="bash", wrap_lines=True)
            st.download_button(
                "Allocation (NPZ)",
                lambda: allocation_to_bytes(request.allocation, "npz"),
                _ALLOCATION_FILE,
                "application/octet-stream",
                key="train_npz",
                on_click="ignore",
                icon=":material/download:",
                help="The file that the command reads.",
            )
        python.code(as_python(request), language="python")
        with tune:
            st.caption("Tries rates by successive halving, on rows held out from the clients. Minutes on one core.")
            budgets = ",".join(map(str, request.allocation.blocks_held_N.tolist()))
            words = ["zorba", "tune", "--model", options["model"], "--dataset", options["dataset"]]
            words += [
                "--budgets",
                budgets,
                "--perturbations",
                str(options["perturbations"]),
                "--mu",
                f"{options['mu']:g}",
            ]
            st.code(shlex.join(words), language="bash", wrap_lines=True)


def as_python(request: Request) -> str:
    """A program that makes the same run."""
    renamed = {"perturbations": "num_perturbations"}
    settings = {
        renamed.get(name, name): value
        for name, value in choices.command_options(request.options).items()
        if name not in ("model", "dataset")
    }
    lines = ",\n    ".join(f"{name}={value!r}" for name, value in settings.items())
    return (
        "import zorba_core as zorba\n"
        "from zorba_core.allocation import allocation_from_file\n\n"
        f'allocation = allocation_from_file("{_ALLOCATION_FILE}")  # the download\n'
        f"settings = zorba.TrainSettings(\n    {lines},\n)\n"
        "run = zorba.fine_tune(\n"
        f"    allocation, model={request.options['model']!r}, dataset={request.options['dataset']!r}, "
        "settings=settings\n)\n"
        'print(run.summary["initial_accuracy"], "->", run.summary["final_accuracy"], run.path)\n'
    )
