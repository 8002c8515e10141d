"""Tasks: rows of text as a prompt, and the answer that follows it. A task is plain data; no row is read here.

There are three kinds. With ``labels`` all rows choose among the same few words, with ``options`` each row brings its
own choices, and with ``text`` the answer is written out, whatever it is.

The tasks of this package are the TOML files of ``catalogue``. A script adds one with ``TASKS.register(Task(...))``, an
installed package through an entry point of ``zorba.tasks``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from zorba_core.errors import InvalidInputError, in_short
from zorba_core.registry import Registry

FIELD = re.compile(r"\{([^{}\n]+)\}")
MAX_LABELS = 1000
CLIENTS_SPLIT = "federated"  # the rows that clients hold
PLACE, CLIENT = "#place", "#client"  # columns of own rows: where each stands ("tickets.csv, line 7"), and whose it is
# Of each kind of task, the metrics that it is judged by; the first is the default.
METRICS = {"labels": ("accuracy",), "options": ("accuracy",), "text": ("exact_match", "token_f1", "rouge_l")}
METRIC_TITLES = {"accuracy": "accuracy", "exact_match": "exact match", "token_f1": "token F1", "rouge_l": "ROUGE-L"}
SCORES = ("sum", "mean")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_STRICT = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


@dataclass(frozen=True, eq=False, config=_STRICT)
class TableRows:
    """Rows of the user's own: files, or a table in memory.

    Args:
        train: a file; a folder that ``datasets`` saved; a folder of files or a pattern such as ``clients/*.csv``, of
            which each file is one client; or a DataFrame. None: no rows here, only what is known of their columns.
        test: the rows to evaluate on; None: a part of ``train``, by a hash of the text.
        label: the column of the label; a task of text to write has none.
        client: the column that says whose row it is.
        label_values: what stands in the label's column for each of the task's labels. Empty: the labels' names, or
            their numbers from 0.
        encoding: of text files that are not UTF-8.
    """

    train: str | Path | pd.DataFrame | None = None
    test: str | Path | pd.DataFrame | None = None
    test_fraction: float = Field(0.2, gt=0, lt=1)
    label: str | None = None
    client: str | None = None
    label_values: tuple[Any, ...] = ()
    encoding: str = "utf-8"

    splits: ClassVar = (CLIENTS_SPLIT, "validation")
    evaluation_split: ClassVar = "validation"

    def __post_init__(self) -> None:
        for name in ("train", "test"):
            path = getattr(self, name)
            if isinstance(path, str | Path):  # whole, since a run is resumed from elsewhere
                object.__setattr__(self, name, os.path.abspath(os.path.expanduser(path)))

    @property
    def origin(self) -> str:
        """What a run's record says of them."""
        return f"file {Path(self.train).name}" if isinstance(self.train, str) else "a table in memory"


@dataclass(frozen=True, eq=False, config=_STRICT)
class MadeRows:
    """Rows that a function makes, split by split; they need no data and no network.

    Args:
        read_split: from a split's name to a table with the task's columns; the same rows each time.
        origin: what a run's record says of them: "grammar 1".
    """

    read_split: Callable[[str], pd.DataFrame]
    origin: str
    splits: tuple[str, ...] = (CLIENTS_SPLIT, "validation")
    evaluation_split: str = "validation"


@dataclass(frozen=True, eq=False, config=_STRICT)
class PublishedRows:
    """A published set, from the folder ``ZORBA_DATA`` or the Hugging Face hub.

    Args:
        hub: the set's name on the hub; ``config`` and ``train_split`` are the hub's as well.
        folder: below ``ZORBA_DATA``; a Parquet file for each split.
        columns: our name of a column -> the published one, or a path in it such as ``answers.text``.
        label_values: what is published for labels 0..C-1, where it is not these numbers.
        evaluation_splits: official labelled splits; results are reported on the first.
        held_out: the part of the training rows to evaluate on, by a hash of the text, where no such split is published.
        base_half: how one half of the training rows is set aside for ``zorba make-base``: by a hash of this column, or
            ``phrases`` (:mod:`zorba_core.data.halves`). Empty: clients hold all rows.
        official_train_rows: a result on fewer rows says so.
    """

    hub: str
    folder: str = ""
    config: str | None = None
    train_split: str = "train"
    columns: dict[str, str] = Field(default_factory=dict)
    label_values: tuple[Any, ...] = ()
    evaluation_splits: tuple[str, ...] = ()
    held_out: float = Field(0.0, ge=0, lt=1)
    base_half: str = ""
    official_train_rows: int = 0

    def __post_init__(self) -> None:
        if bool(self.evaluation_splits) == bool(self.held_out):
            raise InvalidInputError(f"rows of {self.hub}: give evaluation_splits, or held_out between 0 and 1")

    @property
    def splits(self) -> tuple[str, ...]:
        base = ("base",) if self.base_half else ()
        return (*base, CLIENTS_SPLIT, *(self.evaluation_splits or ("validation",)))

    @property
    def evaluation_split(self) -> str:
        return self.evaluation_splits[0] if self.evaluation_splits else "validation"


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class Task:
    """One task: ``Task(name="tickets", prompt="{text} Topic:", rows=TableRows("tickets.csv", label="topic"))``.

    Labels that are not named are read from the rows by :func:`zorba_core.data.infer.task_for`. Where ``answer`` or an
    entry of ``options`` has a field in braces it is a template, else the name of a column.
    """

    name: str  # "sst2": lower case, digits, single hyphens
    title: str = ""  # "SST-2": what a page or a plot shows; default: the name
    about: str = ""  # the question to the model, in a few words
    kind: str = "labels"  # or "options" or "text"
    label_names: tuple[str, ...] = ()  # names of labels 0..C-1
    label_words: tuple[str, ...] = ()  # kind labels: the answer for each label, without the space before it
    options: tuple[str, ...] = ()  # kind options: column or template of each; column ``label`` has the right one, 0..
    answer: str = ""  # kind text: column or template of the answer
    prompt: str  # template over columns of the rows; the answer follows its end
    rows: TableRows | PublishedRows | MadeRows  # where its rows come from
    chat: bool = False  # kind text: the prompt is a user's turn where the tokenizer has a chat template
    score: str = "sum"  # an answer's score: the sum of its tokens' log-probabilities, or their "mean"
    prior: tuple[float, ...] = ()  # kind labels: subtracted from the labels' scores; empty: zeros
    target: float = 0.75  # a value of the metric worth reaching, where a page asks for one
    metric: str = ""  # what its curves show; default: accuracy, for kind text exact_match

    def __post_init__(self) -> None:
        if self.kind not in METRICS:
            raise InvalidInputError(f"task {self.name}: kind {self.kind!r} is none of {', '.join(METRICS)}")
        self._complete()
        problem = self._problem()
        if problem:
            raise InvalidInputError(f"task {self.name}: {problem}")

    def _complete(self) -> None:
        """Fill in what follows from the rest."""
        names = self.label_names or (self.options if self.kind == "options" else ())
        words = self.label_words or (names if self.kind == "labels" else ())
        metric = self.metric or METRICS[self.kind][0]
        completed = {"title": self.title or self.name, "label_names": names, "label_words": words, "metric": metric}
        for name, value in completed.items():
            object.__setattr__(self, name, value)

    def _problem(self) -> str:
        """What is wrong, and how to correct it; empty where all is well."""
        strange = {"labels": ("options", "answer"), "options": ("label_words", "answer", "prior")}
        strange["text"] = ("label_names", "label_words", "options", "prior")
        given = [field for field in strange[self.kind] if getattr(self, field)]
        if not _NAME.fullmatch(self.name):
            return "a name has lower-case letters, digits and single hyphens"
        if given or (self.chat and self.kind != "text"):
            return f"{(*given, 'chat')[0]} is not for kind {self.kind}; leave it out"
        fields = self.text_columns
        if not fields or len({*fields}) < len(fields):
            return "the prompt must have fields such as {text}, the names of columns, each once"
        if self.score not in SCORES:
            return f"score {self.score!r} is none of {', '.join(SCORES)}"
        check = {"labels": self._wrong_labels, "options": self._wrong_options, "text": self._wrong_text}[self.kind]
        if (problem := check()) or self.metric in METRICS[self.kind]:
            return problem
        return f"metric {self.metric!r} is not for kind {self.kind}: use {', '.join(METRICS[self.kind])}"

    def _wrong_labels(self) -> str:
        if self.prompt.endswith((" ", "}")):
            return "the prompt must end in a word, before the space of the answer"
        if isinstance(self.rows, TableRows) and self.rows.label in self.text_columns:
            return f"the prompt contains {self.rows.label}, the column of the label; leave it out of prompt and --text"
        if not self.label_names and isinstance(self.rows, TableRows):
            return ""  # to be read from the rows
        if len(self.label_names) != len(self.label_words) or len(self.label_names) < 2:
            return "label_names and label_words differ in number, or are fewer than two"
        if len(self.label_names) > MAX_LABELS:
            return f"{len(self.label_names):,} labels, and at most {MAX_LABELS:,} can be told apart; use kind text"
        if len(self.prior) not in (0, len(self.label_names)):
            return f"prior has {len(self.prior)} numbers and there are {len(self.label_names)} labels"
        return "" if len({*self.label_words}) == len(self.label_words) else "label words must all differ"

    def _wrong_options(self) -> str:
        if len({*self.options} - {""}) < max(2, len(self.options)):
            return f"kind options needs two different options or more, got {self.options}"
        return "" if len(self.label_names) == len(self.options) else "label_names and options differ in number"

    def _wrong_text(self) -> str:
        return "" if self.answer else "kind text needs answer, a column or a template"

    @property
    def counted(self) -> str:
        """What a run counts as right in each evaluation: ``accuracy``, or of written text ``exact_match``."""
        return METRICS[self.kind][0]

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
        """Columns that its rows must have."""
        label = () if self.kind == "text" else ("label",)
        return tuple(dict.fromkeys((*self.text_columns, *self.answer_columns, *label)))

    @property
    def is_own(self) -> bool:
        """Whether no name says which task it is: a run on it keeps the task beside its config."""
        return isinstance(self.rows, TableRows) or (isinstance(self.rows, PublishedRows) and self.name not in TASKS)


def check_fields(columns: list[str], where: str) -> None:
    """Refuse a column whose name cannot stand in a prompt's braces.

    Raises:
        InvalidInputError: it has a brace or a line break; says what to call it.
    """
    for column in columns:
        if not FIELD.fullmatch(f"{{{column}}}"):
            plain = re.sub(r"[{}\s]+", "_", column).strip("_") or "text"
            raise InvalidInputError(
                f"the column {in_short(column)} has a brace or a line break in its name, which a prompt cannot hold: "
                f"rename it in {where}, to {in_short(plain)} for example"
            )


def _register_catalogue() -> None:
    from zorba_core.data.catalogue import CATALOGUE, read

    for name in CATALOGUE:
        TASKS.register(read(name))


TASKS: Registry[Task] = Registry(
    "dataset",
    "zorba.tasks",
    accepts=lambda part: None if isinstance(part, Task) else f"{type(part).__name__} is no zorba_core.data.Task",
    home=_register_catalogue,
)


def get_task(name: str) -> Task:
    """The task of this name; ``ag_news`` is accepted for ``ag-news``.

    Raises:
        InvalidInputError: no such task.
    """
    plain = name.strip().lower().replace("_", "-")
    return TASKS[plain] if plain in TASKS else TASKS.get_part(name)
