"""Tasks: how a row becomes a prompt, and which answer follows. A task is plain data; this module reads no row.

There are three kinds. With ``labels`` the model chooses among the same words for all rows, with ``options`` among the
options of each row, and with ``text`` it writes the answer.

The tasks of this package are the TOML files of ``catalogue``. A script adds one with ``TASKS.register(Task(...))``, an
installed package by an entry point of ``zorba.tasks``. A user writes one as a TOML file::

    name = "tickets"
    prompt = "{subject} {body} Topic:"
    label_words = ["billing", "crash", "login"]     # for each of label_names; both are optional

    [rows]
    train = "tickets.csv"                           # in the folder of this file; or "clients/*.csv", a file a client
    test = "tickets-test.csv"                       # or test_fraction = 0.2
    label = "topic"
    client = "branch"

Its keys are the fields of :class:`Task`, and under ``[rows]`` those of :class:`TableRows`, or with ``hub`` of
:class:`PublishedRows`.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, field_validator
from pydantic.dataclasses import dataclass

from zorba_core.errors import InvalidInputError, MissingDataError, first_line, in_short, name_some
from zorba_core.registry import Registry
from zorba_core.tables import text_of_file

Table = str | os.PathLike[str] | pd.DataFrame  # files, or rows in memory
FIELD = re.compile(r"\{([^{}\n]+)\}")
MAX_LABELS = 1000
CLIENTS_SPLIT = "federated"  # the clients' training rows
PLACE, CLIENT = "#place", "#client"  # columns of a user's rows: "tickets.csv, line 7", and the client's name
KINDS = ("labels", "options", "text")
SCORES = ("sum", "mean")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_STRICT = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


def checked_table(table: Any) -> Any:
    """A path or a DataFrame, as it is; a DataFrame of a table with ``to_pandas`` (of ``datasets``, pyarrow or polars),
    of mappings, or of a list for each column.

    Raises:
        InvalidInputError: the address of a page, the splits of a data set, or a table of another form.
    """
    if isinstance(table, str) and "://" in table:
        raise InvalidInputError(f"{table} is an address; download the file and give its path")
    if table is None or isinstance(table, str | os.PathLike | pd.DataFrame):
        return table
    if isinstance(table, Mapping) and any(hasattr(part, "to_pandas") for part in table.values()):
        raise InvalidInputError(
            f"rows in memory are the splits {name_some([*table])} of a data set; give one of them, and the rows to "
            "test on as test, or save them with save_to_disk(FOLDER) and give the folder"
        )
    if to_pandas := getattr(table, "to_pandas", None):
        return _with_names(to_pandas(), getattr(table, "features", None) or {})
    if isinstance(table, Mapping) and all(isinstance(part, list | tuple | np.ndarray) for part in table.values()):
        lengths = {name: len(part) for name, part in table.items()}
        if len({*lengths.values()}) > 1:
            raise InvalidInputError(f"rows in memory have columns of different lengths: {lengths}")
        return pd.DataFrame(table)
    if isinstance(table, Iterable) and not isinstance(table, Mapping | bytes | pd.Series | np.ndarray):
        rows = list(table)
        if rows and all(isinstance(row, Mapping) for row in rows):
            return pd.DataFrame(rows)
    kind = f"{type(table).__module__}.{type(table).__name__}".removeprefix("builtins.")
    raise InvalidInputError(
        f"rows in memory are a {kind} in place of a pandas DataFrame; pandas.DataFrame(rows) makes one, with a column "
        "of text and one of the label or the answer"
    )


def _with_names(frame: pd.DataFrame, features: Mapping[str, Any]) -> pd.DataFrame:
    """The frame with the names of labels that ``datasets`` stores as numbers; -1 means no label."""
    for column, feature in features.items():
        if names := getattr(feature, "names", None):
            frame[column] = pd.Categorical.from_codes(frame[column].fillna(-1).astype(int), names)
    return frame


@dataclass(frozen=True, eq=False, config=_STRICT)
class TableRows:
    """A user's rows: files, or a table in memory.

    Args:
        train: a file; a folder that ``datasets`` saved; a folder or a pattern such as ``clients/*.csv``, whose files
            are splits, shards or clients (:mod:`zorba_core.data.sources`); or a DataFrame. None: the rows are not
            available.
        test: the rows to evaluate on; None: the test split among the files of ``train``, else a part of its rows, by
            a hash of the text.
        test_fraction: this part.
        label: the column of the label; a task of kind text has none.
        client: the column that names each row's client.
        label_values: the value in the label's column for each of the task's labels. Empty: their names, or numbers
            from 0.
        encoding: of text files that are not UTF-8.
        sheet: of Excel files; default: the first.
    """

    train: Table | None = None
    test: Table | None = None
    test_fraction: float = Field(default=0.2, gt=0, lt=1)
    label: str | None = None
    client: str | None = None
    label_values: tuple[Any, ...] = ()
    encoding: str = "utf-8"
    sheet: str | None = None

    splits: ClassVar = (CLIENTS_SPLIT, "validation")
    evaluation_split: ClassVar = "validation"

    @field_validator("train", "test", mode="before")
    @classmethod
    def _check_table(cls, table: Any) -> Any:
        return checked_table(table)

    def __post_init__(self) -> None:
        for name in ("train", "test"):
            path = getattr(self, name)
            if isinstance(path, str | os.PathLike):  # absolute: a run may be resumed in another working directory
                object.__setattr__(self, name, os.path.abspath(os.path.expanduser(path)))

    @property
    def origin(self) -> str:
        """The rows' origin, for a run's config."""
        return f"file {Path(self.train).name}" if isinstance(self.train, str) else "a table in memory"

    @property
    def label_column(self) -> str:
        """The column of the label, where it is needed.

        Raises:
            InvalidInputError: none is given.
        """
        if not self.label:
            raise InvalidInputError(
                f"{self.origin}: give the column of the label (--label, or label under [rows] of a task file)"
            )
        return self.label


@dataclass(frozen=True, eq=False, config=_STRICT)
class MadeRows:
    """Rows that a function generates, without data or network.

    Args:
        read_split: a function from a split's name to a table with the task's columns; deterministic.
        origin: the rows' origin, for a run's config: "grammar 1".
    """

    read_split: Callable[[str], pd.DataFrame]
    origin: str
    splits: tuple[str, ...] = (CLIENTS_SPLIT, "validation")
    evaluation_split: str = "validation"


@dataclass(frozen=True, eq=False, config=_STRICT)
class PublishedRows:
    """A published data set, from the folder ``ZORBA_DATA`` or the Hugging Face hub.

    Args:
        hub: its name on the hub; ``config`` and ``train_split`` are names on the hub too.
        folder: its folder in ``ZORBA_DATA``, with a Parquet file for each split.
        columns: our name of a column -> the published name, or a path in its values such as ``answers.text``.
        label_values: the published values of labels 0..C-1, if they are not these numbers.
        evaluation_splits: official labelled splits; results are reported on the first.
        held_out: without such a split: the part of the training rows to evaluate on, by a hash of the text.
        base_half: the column whose hash puts a training row into the half that trained ``opt-mini``, or ``phrases``
            (:func:`zorba_core.data.split.phrases_in_base`). Empty: clients have all rows.
        official_train_rows: a result on fewer training rows states it.
    """

    hub: str
    folder: str = ""
    config: str | None = None
    train_split: str = "train"
    columns: dict[str, str] = Field(default_factory=dict)
    label_values: tuple[Any, ...] = ()
    evaluation_splits: tuple[str, ...] = ()
    held_out: float = Field(default=0.0, ge=0, lt=1)
    base_half: str = ""
    official_train_rows: int = 0

    def __post_init__(self) -> None:
        if bool(self.evaluation_splits) == bool(self.held_out):
            raise InvalidInputError(f"rows of {self.hub}: give evaluation_splits, or held_out between 0 and 1")

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of all splits."""
        base = ("base",) if self.base_half else ()
        return (*base, CLIENTS_SPLIT, *(self.evaluation_splits or ("validation",)))

    @property
    def evaluation_split(self) -> str:
        """The split on which results are reported."""
        return self.evaluation_splits[0] if self.evaluation_splits else "validation"


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class Task:
    """One task: ``Task(name="tickets", prompt="{text} Topic:", rows=TableRows("tickets.csv", label="topic"))``.

    :func:`zorba_core.data.infer.task_for` reads missing label names from the rows. ``answer`` and each entry of
    ``options`` are the name of a column, or a template with fields in braces.

    Raises:
        InvalidInputError: the fields contradict each other.
    """

    name: str  # "sst2": lower case, digits, single hyphens
    title: str = ""  # "SST-2", for pages and plots; default: the name
    about: str = ""  # the question to the model, as a phrase
    kind: str = "labels"  # or "options" or "text"
    label_names: tuple[str, ...] = ()  # names of labels 0..C-1
    label_words: tuple[str, ...] = ()  # kind labels: the answer for each label, without the space before it
    options: tuple[str, ...] = ()  # kind options: column or template of each; column ``label`` is the right one, 0..
    answer: str = ""  # kind text: column or template of the answer
    prompt: str  # template over columns of the rows; the answer follows its end
    prompts: tuple[str, ...] = ()  # kind labels: prompts of which a run takes the best (zorba_core.runs.prompt)
    rows: TableRows | PublishedRows | MadeRows
    chat: bool = False  # kind text: the prompt is a user's turn if the tokenizer has a chat template
    score: str = "sum"  # an answer's score: the sum of its tokens' log-probabilities, or their "mean"
    prior: tuple[float, ...] = ()  # kind labels: subtracted from the labels' scores; empty: zeros

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidInputError(f"task {self.name}: kind {self.kind!r} is none of {', '.join(KINDS)}")
        names = self.label_names or (self.options if self.kind == "options" else ())
        words = self.label_words or (names if self.kind == "labels" else ())
        completed = {"title": self.title or self.name, "label_names": names, "label_words": words}
        for name, value in completed.items():
            object.__setattr__(self, name, value)
        for problem in self._problems():
            raise InvalidInputError(f"task {self.name}: {problem}")

    def _problems(self) -> Iterator[str]:
        """Errors in the fields, each with its remedy."""
        unused = {"labels": ("options", "answer"), "options": ("label_words", "answer", "prior", "prompts")}
        unused["text"] = ("label_names", "label_words", "options", "prior", "prompts")
        given = [field for field in unused[self.kind] if getattr(self, field)]
        if given or (self.chat and self.kind != "text"):
            yield f"{(*given, 'chat')[0]} is not for kind {self.kind}; leave it out"
        if not _NAME.fullmatch(self.name):
            yield "a name has lower-case letters, digits and single hyphens"
        if not self.text_columns or len({*self.text_columns}) < len(self.text_columns):
            yield "the prompt must have fields such as {text}, the names of columns, each once"
        if self.score not in SCORES:
            yield f"score {self.score!r} is none of {', '.join(SCORES)}"
        if self.kind == "text" and not self.answer:
            yield "kind text needs answer, a column or a template"
        if self.kind == "options":
            if len({*self.options} - {""}) < max(2, len(self.options)):
                yield f"kind options needs two different options or more, got {self.options}"
            if len(self.label_names) != len(self.options):
                yield "label_names and options differ in number"
        if self.kind == "labels":
            yield from self._label_problems()

    def _label_problems(self) -> Iterator[str]:
        own = self.rows if isinstance(self.rows, TableRows) else None
        if self.prompt.endswith((" ", "}")):
            yield "the prompt must end in a word, before the space of the answer"
        if own and own.label in self.text_columns:
            yield f"the prompt contains {own.label}, the column of the label; leave it out of prompt and --text"
        if own and not self.label_names:
            return  # to be read from the rows
        count, words = len(self.label_names), self.label_words
        if not 2 <= count <= MAX_LABELS:
            yield f"it has {count:,} labels, and a classification has 2 to {MAX_LABELS:,}; use kind text"
        if len({*words}) != count or len(words) != count or not all(word.strip() for word in words):
            yield f"{count} labels need {count} different label words, none of them empty; got {in_short(list(words))}"
        if len(self.prior) not in (0, count):
            yield f"prior has {len(self.prior)} numbers and there are {count} labels"

    @property
    def counted(self) -> str:
        """The name of the metric that a run reports as accuracy."""
        return "exact match" if self.kind == "text" else "accuracy"

    @property
    def num_classes(self) -> int:
        """C, the labels or options; 0 for kind text."""
        return len(self.label_names)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns of the rows that the prompt reads."""
        return tuple(FIELD.findall(self.prompt))

    @property
    def answer_columns(self) -> tuple[str, ...]:
        """Columns of the rows that the answer or the options are made of."""
        templates = self.options if self.kind == "options" else (self.answer,) if self.kind == "text" else ()
        columns = [column for template in templates for column in FIELD.findall(template) or [template]]
        return tuple(dict.fromkeys(columns))

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the rows must have."""
        label = () if self.kind == "text" else ("label",)
        return tuple(dict.fromkeys((*self.text_columns, *self.answer_columns, *label)))

    @property
    def is_own(self) -> bool:
        """Whether a run must save the whole task, because no built-in task has its name."""
        return isinstance(self.rows, TableRows) or (isinstance(self.rows, PublishedRows) and self.name not in TASKS)


@dataclass(frozen=True, eq=False, config=_STRICT)
class Overrides:
    """Values that the user gives instead of inferred ones; see :class:`Task` and :class:`TableRows`.

    Args:
        text: columns of the texts; one name is enough.
        answer: column of the answer to write, in place of a label.
    """

    text: tuple[str, ...] = ()
    label: str | None = None
    answer: str | None = None
    prompt: str | None = None
    label_words: tuple[str, ...] = ()
    client: str | None = None
    test: Table | None = None
    sheet: str | None = None

    @field_validator("text", mode="before")
    @classmethod
    def _several(cls, text: Any) -> Any:
        return (text,) if isinstance(text, str) else text

    @field_validator("test", mode="before")
    @classmethod
    def _check_table(cls, table: Any) -> Any:
        return checked_table(table)


# The tasks of this package, one TOML file each, in the order of help and pages.
_CATALOGUE = (
    "sst2", "ag_news", "snli", "toy_reviews", "toy_verdicts",
    "rte", "boolq", "cb", "wic", "wsc", "multirc", "qqp", "trec", "banking77", "copa",
    "squad", "drop", "xsum", "gsm8k", "alpaca", "dolly",
)  # fmt: skip


def _register_catalogue() -> None:
    """Read the catalogue. Only its files may name a function that generates the rows."""
    from zorba_core.data import toy_reviews

    for name in _CATALOGUE:
        text = Path(__file__).with_name("catalogue").joinpath(f"{name}.toml").read_text(encoding="utf-8")
        table = tomllib.loads(text)
        made_by = table["rows"].pop("made_by", None)
        made = None if made_by is None else MadeRows(getattr(toy_reviews, made_by), **table["rows"])
        TASKS.register(task_from(table, made=made))


TASKS: Registry[Task] = Registry("dataset", "zorba.tasks", Task, home=_register_catalogue)


def get_task(name: str) -> Task:
    """The task of this name; ``ag_news`` is accepted for ``ag-news``.

    Raises:
        InvalidInputError: no such task.
    """
    plain = name.strip().lower().replace("_", "-")
    return TASKS[plain] if plain in TASKS else TASKS.get_part(name)


def read_task(path: str | os.PathLike[str]) -> Task:
    """The task of a TOML file.

    Raises:
        MissingDataError: no such file.
        InvalidInputError: not TOML, or not a task; names file and key.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingDataError(f"task file {str(path)!r} does not exist")
    try:
        return task_from(tomllib.loads(text_of_file(path)), path.parent)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(f"{path}: not TOML: {first_line(error)}") from None
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error}") from None


def task_from(table: Mapping[str, Any], folder: str | os.PathLike[str] = ".", *, made: MadeRows | None = None) -> Task:
    """The task of a TOML table.

    Args:
        folder: relative paths of rows start here.
        made: rows in place of ``[rows]``.

    Raises:
        InvalidInputError: an unknown key, or an invalid value.
    """
    given = table.get("rows")
    if not isinstance(given, Mapping):
        raise InvalidInputError('the table [rows] is missing; write [rows] and, for example, train = "tickets.csv"')
    if made is not None:
        rows = made
    elif "hub" in given:
        rows = _validated(PublishedRows, dict(given), "[rows] ")
    else:
        paths = {key: Path(folder, os.path.expanduser(str(given[key]))) for key in ("train", "test") if key in given}
        rows = _validated(TableRows, {**given, **paths}, "[rows] ")
    return _validated(Task, {**table, "rows": rows})


_Kind = TypeVar("_Kind", Task, TableRows, PublishedRows)


def _validated(kind: type[_Kind], table: dict[str, Any], where: str = "") -> _Kind:
    try:
        return TypeAdapter(kind).validate_python(table)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        if first["type"] == "unexpected_keyword_argument":
            known = ", ".join(field.name for field in fields(kind))
            problem = f"{where or 'a task '}has an unknown key {in_short(name)}; it has {known}"
        elif first["type"] == "missing":
            problem = f"{where}the key {name} is missing"
        else:
            problem = f"{where}{name} is {in_short(first['input'])}: {first['msg'].lower()}"
        raise InvalidInputError(problem) from None


def table_of(task: Task) -> dict[str, Any]:
    """The task as a table for :func:`task_from`, without defaults. Paths are absolute; a DataFrame is left out."""
    rows = task.rows
    in_memory = {name for name in ("train", "test") if isinstance(getattr(rows, name, None), pd.DataFrame)}
    table = TypeAdapter(Task).dump_python(task, exclude={"rows"}, exclude_defaults=True)
    table["rows"] = TypeAdapter(type(rows)).dump_python(rows, exclude=in_memory, exclude_defaults=True)
    return json.loads(json.dumps(table))
