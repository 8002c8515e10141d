"""Tasks: classification as a prompt. The model reads the text, then the prompt, and the label is the next word.

A task is one object and one registration. This package's own are in :mod:`zorba_core.data.catalogue`, a file each; a
script adds one with ``TASKS.register(Task(...))``, an installed package through an entry point of ``zorba.tasks``.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass

from zorba_core.data.sources import RowSource
from zorba_core.errors import InvalidInputError
from zorba_core.registry import Registry

FIELD = re.compile(r"\{([^{}\n]+)\}")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_CATALOGUE = ("sst2", "ag_news", "snli", "toy_reviews")  # in the order that help and pages show them


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task. ``Task(name="tickets", prompt="{text} Topic:", rows=FileRows("tickets.csv", label="topic"))`` is whole:
    what is left out follows from the rest.

    ``label_words`` are the answers that fine-tuning and evaluation use, written without the space that stands before
    them in the text.
    """

    name: str  # "sst2": lower case, digits, single hyphens
    prompt: str  # template over text_columns; the answer follows its end
    rows: RowSource  # where its rows come from
    title: str = ""  # "SST-2": what a page or a plot shows; default: the name
    about: str = ""  # the question to the model, in a few words
    label_names: tuple[str, ...] = ()  # names of labels 0..C-1; default: those in the rows
    label_words: tuple[str, ...] = ()  # the answer for each label; default: the names
    text_columns: tuple[str, ...] = ()  # columns of the rows that the prompt reads: the prompt's fields
    target: float = 0.75  # an accuracy worth reaching, where a page asks for one

    def __post_init__(self) -> None:
        self._complete()
        if not _NAME.fullmatch(self.name):
            raise InvalidInputError(f"task {self.name!r}: a name has lower-case letters, digits and single hyphens")
        if len(self.label_names) != len(self.label_words) or len(self.label_names) < 2:
            raise InvalidInputError(f"task {self.name}: label_names and label_words differ in number, or are too few")
        if len({*self.label_words}) != len(self.label_words):
            raise InvalidInputError(f"task {self.name}: label words must all differ")
        if tuple(FIELD.findall(self.prompt)) != self.text_columns or len({*self.text_columns}) < len(self.text_columns):
            raise InvalidInputError(f"task {self.name}: the prompt must use {self.text_columns}, once and in order")
        if not self.text_columns:
            raise InvalidInputError(f"task {self.name}: the prompt has no field such as {{text}}; name a column in it")
        if self.prompt.endswith((" ", "}")):
            raise InvalidInputError(f"task {self.name}: the prompt must end in a word, before the space of the answer")

    def _complete(self) -> None:
        """Fill in what was left out, and make tuples of lists."""
        for name in ("label_names", "label_words", "text_columns"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "title", self.title or self.name)
        object.__setattr__(self, "text_columns", self.text_columns or tuple(FIELD.findall(self.prompt)))
        if not self.label_names and hasattr(self.rows, "frame"):  # files and tables, not published sets
            from zorba_core.data.labels import labels_in

            object.__setattr__(self, "label_names", labels_in(self.rows, self.name))
        object.__setattr__(self, "label_words", self.label_words or self.label_names)

    @property
    def num_classes(self) -> int:
        return len(self.label_names)


def _register_catalogue() -> None:
    for module in _CATALOGUE:
        TASKS.register(importlib.import_module(f"zorba_core.data.catalogue.{module}").TASK)


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
