"""The third box: which rows, a built-in task or a file of the reader's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from app.screens.train import choices, own_data
from app.shared import components
from app.shared.links import linked
from zorba_core.data.tasks import Task

OWN = "own"


@dataclass(frozen=True, eq=False)
class ChosenData:
    """A task, and the options by which ``zorba train`` reads the same rows."""

    task: Task
    options: dict[str, Any]
    own: bool
    num_clients: int | None = None  # that the rows name

    @property
    def title(self) -> str:
        return self.task.title


def ask() -> str:
    """Which rows: the name of a task that is here, or :data:`OWN`."""
    st.markdown("## 3 · My data")
    tasks = {task.name: task for task in choices.datasets() if not task.rows.missing()}
    name = linked(
        st.selectbox,
        "Rows",
        [*tasks, OWN],
        key="my_data",
        format_func=lambda name: "Rows of my own …" if name == OWN else tasks[name].title,
        help="For a rehearsal here, and for what a federation trains on. The plan of memory and seconds needs no rows.",
    )
    if name == OWN:
        st.caption("Point to the file below: it stays on this machine.")
    else:
        about = components.capitalised(components.plain(tasks[name].about))
        st.caption(f"{about}; divided unevenly among the clients.")
    return name


def task_of(name: str, runs_folder: Path, model: str) -> ChosenData | None:
    """The rows behind the name; for the reader's own, controls to say what their columns are. None until there is a
    task."""
    if name != OWN:
        task = next(task for task in choices.datasets() if task.name == name)
        return ChosenData(task, {"dataset": task.name}, own=False)
    with st.expander("My rows: file, columns, prompt", icon=":material/table_rows:", expanded=True):
        own = own_data.ask(runs_folder, model)
    return None if own is None else ChosenData(own.task, own.options, own=True, num_clients=own.num_clients)
