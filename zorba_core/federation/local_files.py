"""Files of rows in a federation: each client reads its own and nobody else's, the server one to evaluate on.

The task (columns, prompt, labels and their words) comes from the server and is checked against the local rows. What is
wrong with a row is for its owner alone: the server is told that the rows do not fit, the client's own log says where.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from zorba_core.data.divide import NATURAL, divide, division_of
from zorba_core.data.load import load
from zorba_core.data.own_rows import file_clients, files_of, is_many, prepared, read_rows
from zorba_core.data.task import TableRows, Task
from zorba_core.errors import InvalidInputError, ZorbaError
from zorba_core.files import atomic_path

_TEST = "test.parquet"
_ROWS = "rows.parquet"


def local_rows(task: Task, path: str) -> pd.DataFrame:
    """All rows of a client's own file, as the run's task reads them.

    Raises:
        InvalidInputError: they do not fit the task. The message goes to the server, so it quotes nothing of the rows.
    """
    own = task.rows if isinstance(task.rows, TableRows) else None
    label = own.label if own is not None else "label" if "label" in task.columns else None
    rows = TableRows(path, label=label, label_values=own.label_values if own is not None else ())
    try:
        return prepared(task, rows, read_rows(rows))
    except ZorbaError as error:
        logging.getLogger("zorba").warning("zorba: this client's rows do not fit the run's task: %s", error)
        raise InvalidInputError(
            f"this client's rows do not fit the task {task.name}; what is wrong, and where, is in the client's own log"
        ) from None


@dataclass(frozen=True)
class LocalFiles:
    """Whose rows lie where on one machine that plays them all."""

    rows: tuple[str, ...]  # by seat
    evaluate_on: str


def share_out(
    task: Task, folder: Path, num_clients: int, *, division: str | None, alpha: float, seed: int
) -> LocalFiles:
    """Give each client of a rehearsal on this machine a file of its own, and the server its test rows.

    Where there is a file for each client and one to test on, these are what the clients and the server read. Else the
    rows are divided as a run within one process divides them, and written below ``folder``, a file a client.

    Raises:
        InvalidInputError: rows that do not fit the task, or another number of clients than the rows name.
    """
    source = task.rows
    division = division_of(task, division)
    if division == NATURAL and is_many(source.train) and not source.client and source.test is not None:
        files = files_of(source.train)
        files = [file for _, file in sorted(zip(file_clients(files), files, strict=True))]
        if len(files) != num_clients:
            raise InvalidInputError(f"there are {len(files)} files of rows and {num_clients} clients; make them agree")
        return LocalFiles(tuple(files), source.test)
    frame = load(task)
    held_N = divide(frame, num_clients, alpha, seed, division)
    paths = [_write(task, frame.iloc[held], folder / f"node-{seat}" / _ROWS) for seat, held in enumerate(held_N)]
    return LocalFiles(tuple(paths), _write(task, load(task, source.evaluation_split), folder / _TEST))


def _write(task: Task, frame: pd.DataFrame, path: Path) -> str:
    columns = {column: frame[column].tolist() for column in dict.fromkeys((*task.text_columns, *task.answer_columns))}
    if "label" in task.columns:
        columns[task.rows.label] = [task.label_names[label] for label in frame["label"]]
    with atomic_path(path, private=True) as temporary:
        pd.DataFrame(columns).to_parquet(temporary)
    return str(path.resolve())
