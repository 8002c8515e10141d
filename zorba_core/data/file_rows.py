"""Rows of a user's own: from files on this machine, or from a table that is in memory already.

Every training row is a client's: nothing is withheld but what a test needs. Without a test file the test rows are
chosen by a hash of their text, so that equal texts never stand on both sides, the choice does not depend on the order
of the rows, and each label and each client keeps at least one row to train on.

Shapes: R rows, C classes.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from zorba_core.data.hash_split import CLIENT, hash_split
from zorba_core.data.labels import label_text
from zorba_core.data.tables import file_sha256, is_empty, place, read_cached
from zorba_core.errors import InvalidInputError, MissingDataError, in_short, name_some

if TYPE_CHECKING:
    from zorba_core.data.tasks import Task

PLACE = "#place"  # the column that says where it stands: "tickets.csv, line 7"
TEST_FRACTION = 0.2
_PATTERN = frozenset("*?[")


@dataclass(frozen=True, eq=False)
class FileRows:
    """Rows from files.

    Args:
        train: a file, a folder of ``datasets``, or a pattern such as ``clients/*.csv``: then one file is one client.
        test: the rows to evaluate on; None: a part of ``train`` by hash.
        label: the column of the label; a task of text to write has none.
        client: the column that says whose row it is.
        id: a column in which every row differs; a value that comes twice is refused.
        label_values: what stands in the label's column for each of the task's label names, where they differ.
    """

    train: str
    test: str | None = None
    test_fraction: float = TEST_FRACTION
    label: str | None = None
    client: str | None = None
    id: str | None = None
    label_values: tuple[Any, ...] = ()
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        for name in ("train", "test"):
            path = getattr(self, name)
            if path is not None:
                object.__setattr__(self, name, os.path.abspath(os.path.expanduser(os.fspath(path))))
        object.__setattr__(self, "label_values", tuple(self.label_values))
        if not 0 < self.test_fraction < 1:
            raise InvalidInputError(f"test_fraction is {self.test_fraction}; it must be between 0 and 1")

    splits = ("federated", "validation")
    evaluation_split = "validation"

    def read(self, task: Task, split: str) -> pd.DataFrame:
        """As :class:`zorba_core.data.sources.RowSource` says, with the columns ``CLIENT`` (text; where rows have
        clients) and ``PLACE``."""
        train = prepared(self, task, self.frame("train"))
        if self.test is not None:
            frame = train if split == "federated" else prepared(self, task, self.frame("test"), test=True)
        else:
            in_test_R = hash_split(task, train, self.test_fraction)
            frame = train[in_test_R if split == self.evaluation_split else ~in_test_R].reset_index(drop=True)
        frame.attrs = {"source": self.origin, "note": ""}
        return frame

    @property
    def origin(self) -> str:
        return f"file {Path(self.train).name}"

    def frame(self, which: str = "train") -> pd.DataFrame:
        """All columns as they stand in the file or files, and PLACE; CLIENT where each file is a client.

        Raises:
            InvalidInputError, MissingDataError: as :func:`zorba_core.data.tables.read_table`.
        """
        parts = []
        files = self.files(which)
        for file in files:
            read = read_cached(file, self.encoding)
            part = read.copy()
            part.attrs = dict(read.attrs)
            part[PLACE] = [place(file, index) for index in read.index]
            if len(files) > 1 or _is_pattern(getattr(self, which)):
                part[CLIENT] = Path(file).stem
            parts.append(part)
        frame = parts[0] if len(parts) == 1 else pd.concat(parts)
        frame.attrs = parts[0].attrs
        return frame.reset_index(drop=True)

    def files(self, which: str = "train") -> list[str]:
        path = getattr(self, which)
        if path is None:
            return []
        if not _is_pattern(path) or os.path.exists(path):
            return [path]
        files = sorted(glob.glob(path))
        if not files:
            raise MissingDataError(f"no file matches {path!r}; give a pattern such as clients/*.csv, in quotes")
        return files

    @property
    def by_client(self) -> bool:
        """Whether the rows say whose they are."""
        return bool(self.client) or _is_pattern(self.train)

    def missing(self) -> str:
        for which in ("train", "test"):
            path = getattr(self, which)
            if path and not _is_pattern(path) and not os.path.exists(path):
                return f"{path} does not exist"
        return ""

    def fingerprints(self) -> dict[str, str]:
        """The SHA-256 of each file, by its path."""
        return {file: file_sha256(file) for which in ("train", "test") for file in self.files(which)}

    def moved_to(self, train: str | None = None, test: str | None = None) -> FileRows:
        """The same rows where they lie now."""
        return replace(self, train=train or self.train, test=test or self.test)


@dataclass(frozen=True, eq=False)
class FrameRows:
    """Rows of a table in memory. A run on them cannot say where they are: to resume it, give them again."""

    train: pd.DataFrame | None
    test: pd.DataFrame | None = None
    test_fraction: float = TEST_FRACTION
    label: str | None = None
    client: str | None = None
    id: str | None = None
    label_values: tuple[Any, ...] = ()
    _cache: dict[str, pd.DataFrame] = field(default_factory=dict, repr=False)

    splits = ("federated", "validation")
    evaluation_split = "validation"
    origin = "a table in memory"
    read = FileRows.read

    def frame(self, which: str = "train") -> pd.DataFrame:
        given = getattr(self, which)
        if given is None:
            raise MissingDataError(
                "these rows were a table in memory, which no folder keeps: give them again (data=, or --data FILE)"
            )
        frame = given.copy().astype(object)
        frame.columns = [str(column) for column in frame.columns]
        frame[PLACE] = [f"row {index}" for index in range(1, len(frame) + 1)]
        return frame.reset_index(drop=True)

    @property
    def by_client(self) -> bool:
        return bool(self.client)

    def missing(self) -> str:
        return "" if self.train is not None else "a table that was in memory"

    def fingerprints(self) -> dict[str, str]:
        return {}


def _is_pattern(path: str | None) -> bool:
    return bool(path) and bool(_PATTERN & set(path)) and not os.path.exists(path)


def prepared(rows: FileRows | FrameRows, task: Task, frame: pd.DataFrame, test: bool = False) -> pd.DataFrame:
    """The task's columns of a raw table: texts as text, ``label`` as 0..C-1, CLIENT and PLACE.

    Raises:
        InvalidInputError: a column is missing, or a row without text, label or client; by file and line.
    """
    read = (*task.text_columns, *task.answer_columns)
    from zorba_core.data.tasks import check_fields

    used = [*read, *(column for column in (rows.label, rows.client, rows.id) if column)]
    absent = [column for column in dict.fromkeys(used) if column not in frame.columns]
    if absent:
        there = [column for column in frame.columns if column not in (PLACE, CLIENT)]
        check_fields([column for column in there if absent[0] in column], _file_of(frame))
        raise InvalidInputError(
            f"task {task.name}: {_file_of(frame)} has no column {in_short(absent[0])}; it has {name_some(there, 12)}"
        )
    if "label" in read:
        raise InvalidInputError(
            f"task {task.name}: a column of text is called label, a name kept for labels to choose among; rename "
            f"that column in {_file_of(frame)}"
        )
    columns: dict[str, Any] = {column: text_of(frame, column, task) for column in dict.fromkeys(read)}
    for what, parts in (("text", task.text_columns), ("answer", task.answer_columns)):
        if parts:
            empty_R = np.logical_and.reduce([[not text.strip() for text in columns[part]] for part in parts])
            refuse_rows(frame, empty_R, f"no {what} in {' or '.join(parts)}", "remove such rows, or fill them in")
    if "label" in task.columns:
        if not rows.label:
            raise InvalidInputError(f"task {task.name}: no column is named for the label (label under [rows])")
        columns["label"] = label_numbers(task, rows, frame, test)
    if rows.id:
        ids = frame[rows.id].map(str)
        again_R = ids.duplicated().to_numpy()
        if again_R.any():
            first = ids[again_R].iloc[0]
            refuse_rows(
                frame, again_R, f"the {rows.id} {in_short(first)} is there already", "give each row its own, once"
            )
    if rows.client:
        refuse_rows(frame, [is_empty(value) for value in frame[rows.client]], f"no client in {rows.client}")
        columns[CLIENT] = [str(value).strip() for value in frame[rows.client]]
    elif CLIENT in frame:
        columns[CLIENT] = frame[CLIENT].tolist()
    columns[PLACE] = frame[PLACE].tolist()
    return pd.DataFrame(columns)


def text_of(frame: pd.DataFrame, column: str, task: Task) -> list[str]:
    """A column as text; an empty cell is an empty text.

    Raises:
        InvalidInputError: a list or an object where a text belongs.
    """
    values = frame[column].tolist()
    for row, value in enumerate(values):
        if isinstance(value, list | dict | np.ndarray | bytes):
            raise InvalidInputError(
                f"{frame[PLACE].iloc[row]}: column {column} holds a {type(value).__name__} and task {task.name} reads "
                "text there; name another column"
            )
    return ["" if is_empty(value) else str(value) for value in values]


def refuse_rows(
    frame: pd.DataFrame, at_fault_R: Sequence[bool], what: str, cure: str = "correct or remove such rows"
) -> None:
    """Raise for the rows at fault, naming where the first ones stand."""
    places = [where for where, wrong in zip(frame[PLACE], at_fault_R, strict=True) if wrong]
    if places:
        more = f" ({len(places)} such rows: {name_some(places[1:], 3)})" if len(places) > 1 else ""
        raise InvalidInputError(f"{places[0]}: {what}{more}; {cure}")


def label_numbers(task: Task, rows: FileRows | FrameRows, frame: pd.DataFrame, test: bool = False) -> np.ndarray:
    """The label of each row as 0..C-1, int64 (R,): by its value or by its name.

    Raises:
        InvalidInputError: a row without a label, or with one that the task does not have.
    """
    raw = frame[rows.label].tolist()
    refuse_rows(frame, [is_empty(value) for value in raw], f"no label in {rows.label}")
    number_of: dict[str, int] = {}
    for values in (task.label_names, rows.label_values):  # the later ones win
        number_of |= {label_text(value): number for number, value in enumerate(values)}
    names = frame.attrs.get("names", {}).get(rows.label)
    texts = [names[value] if names and isinstance(value, int) and 0 <= value < len(names) else value for value in raw]
    texts = [label_text(value) for value in texts]
    if not number_of.keys() & set(texts) and all(text.isdigit() for text in texts):
        number_of |= {str(number): number for number in range(task.num_classes)}
    unknown = [text not in number_of for text in texts]
    if any(unknown):
        first = texts[unknown.index(True)]
        known = f"the task's labels are {name_some(task.label_names, 12)}"
        what = f"the label {in_short(first)} is " + ("not among those trained on" if test else "none of the task's")
        refuse_rows(frame, unknown, what, f"{known}: correct the row, or add the label to the rows that are trained on")
    return np.array([number_of[text] for text in texts], dtype=np.int64)


def _file_of(frame: pd.DataFrame) -> str:
    where = str(frame[PLACE].iloc[0])
    return where.rsplit(",", 1)[0] if "," in where else "the table"


def clients_of(frame: pd.DataFrame) -> tuple[str, ...]:
    """The clients that a split's rows name, sorted; none where they name none."""
    return tuple(sorted(set(frame[CLIENT]))) if CLIENT in frame else ()


def rows_from(table: Mapping[str, Any], folder: Path) -> FileRows:
    """The rows that a task file's table ``[rows]`` describes; its paths are beside the file.

    Raises:
        InvalidInputError: an unknown key, or a value of another kind.
    """
    check_rows_table(table)
    paths = {name: str(folder / os.path.expanduser(table[name])) for name in ("train", "test") if name in table}
    return FileRows(**{**table, **paths})


def check_rows_table(table: Mapping[str, Any]) -> None:
    """Refuse a key that rows do not have, or a value of another kind.

    Raises:
        InvalidInputError: by key.
    """
    known = FileRows.__annotations__
    for name, value in table.items():
        if name not in known:
            raise InvalidInputError(f"[rows] has an unknown key {in_short(name)}; it has {', '.join(known)}")
        accepted = (int, float) if name == "test_fraction" else list if name == "label_values" else str
        if isinstance(value, bool) or not isinstance(value, accepted):
            raise InvalidInputError(f"[rows] {name} is {in_short(value)}, of the wrong kind")
