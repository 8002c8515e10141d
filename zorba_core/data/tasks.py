"""Tasks: rows of text as a prompt, and the answer that follows it.

There are three kinds. With ``labels`` all rows choose among the same few words, with ``options`` each row brings its
own choices, and with ``text`` the answer is written out, whatever it is.

A task is one object and one registration. This package's own are in :mod:`zorba_core.data.catalogue`, a file each; a
script adds one with ``TASKS.register(Task(...))``, an installed package through an entry point of ``zorba.tasks``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from zorba_core.data.labels import MAX_LABELS
from zorba_core.data.sources import RowSource
from zorba_core.errors import InvalidInputError, in_short
from zorba_core.registry import Registry

FIELD = re.compile(r"\{([^{}\n]+)\}")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_CATALOGUE = (  # in the order that help and pages show them
    "sst2", "ag_news", "snli", "toy_reviews", "toy_verdicts",
    "rte", "boolq", "cb", "wic", "wsc", "multirc", "qqp", "trec", "banking77", "copa",
    "squad", "drop", "xsum", "gsm8k", "alpaca", "dolly",
)  # fmt: skip


# Of each kind of task, the metrics that it is judged by; the first is the default.
METRICS = {"labels": ("accuracy",), "options": ("accuracy",), "text": ("exact_match", "token_f1", "rouge_l")}
METRIC_TITLES = {"accuracy": "accuracy", "exact_match": "exact match", "token_f1": "token F1", "rouge_l": "ROUGE-L"}


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task. ``Task(name="tickets", prompt="{text} Topic:", rows=FileRows("tickets.csv", label="topic"))`` is whole:
    what is left out follows from the rest.

    ``label_words`` are the answers that fine-tuning and evaluation use, written without the space that stands before
    them in the text. Where ``answer`` or an entry of ``options`` has a field in braces it is a template, else the name
    of a column.
    """

    name: str  # "sst2": lower case, digits, single hyphens
    title: str = ""  # "SST-2": what a page or a plot shows; default: the name
    about: str = ""  # the question to the model, in a few words
    kind: str = "labels"  # or "options" or "text"
    label_names: tuple[str, ...] = ()  # names of labels 0..C-1; default, for kind labels: those in the rows
    label_words: tuple[str, ...] = ()  # kind labels: the answer for each label; default: the names
    options: tuple[str, ...] = ()  # kind options: column or template of each; column ``label`` has the right one, 0..
    answer: str = ""  # kind text: column or template of the answer
    prompt: str  # template over text_columns; the answer follows its end
    text_columns: tuple[str, ...] = ()  # columns of the rows that the prompt reads: the prompt's fields
    rows: RowSource  # where its rows come from
    chat: bool = False  # kind text: the prompt is a user's turn where the tokenizer has a chat template
    target: float = 0.75  # a value of the metric worth reaching, where a page asks for one
    metric: str = ""  # what its curves show; default: accuracy, for kind text exact_match

    def __post_init__(self) -> None:
        self._complete()
        if not _NAME.fullmatch(self.name):
            raise InvalidInputError(f"task {self.name!r}: a name has lower-case letters, digits and single hyphens")
        if self.kind not in METRICS:
            raise InvalidInputError(f"task {self.name}: kind {self.kind!r} is none of {', '.join(METRICS)}")
        if self.chat and self.kind != "text":
            raise InvalidInputError(f"task {self.name}: chat is for kind text; leave it out")
        check = {"labels": self._check_labels, "options": self._check_options, "text": self._check_text}[self.kind]
        check()
        if self.metric not in ("", *METRICS[self.kind]):
            known = ", ".join(METRICS[self.kind])
            raise InvalidInputError(
                f"task {self.name}: metric {self.metric!r} is not for kind {self.kind}: use {known}"
            )
        object.__setattr__(self, "metric", self.metric or METRICS[self.kind][0])
        if tuple(FIELD.findall(self.prompt)) != self.text_columns or len({*self.text_columns}) < len(self.text_columns):
            raise InvalidInputError(f"task {self.name}: the prompt must use {self.text_columns}, once and in order")
        if not self.text_columns:
            raise InvalidInputError(f"task {self.name}: the prompt has no field such as {{text}}; name a column in it")

    def _complete(self) -> None:
        """Fill in what was left out, and make tuples of lists."""
        for name in ("label_names", "label_words", "options", "text_columns"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "title", self.title or self.name)
        object.__setattr__(self, "text_columns", self.text_columns or tuple(FIELD.findall(self.prompt)))
        if self.kind != "labels":
            return
        if not self.label_names and hasattr(self.rows, "frame"):  # files and tables, not published sets
            from zorba_core.data.labels import labels_in

            object.__setattr__(self, "label_names", labels_in(self.rows, self.name))
        object.__setattr__(self, "label_words", self.label_words or self.label_names)

    def _check_labels(self) -> None:
        self._refuse("options", "answer")
        if len(self.label_names) != len(self.label_words) or len(self.label_names) < 2:
            raise InvalidInputError(f"task {self.name}: label_names and label_words differ in number, or are too few")
        if len(self.label_names) > MAX_LABELS:
            raise InvalidInputError(
                f"task {self.name}: {len(self.label_names):,} labels, and at most {MAX_LABELS:,} can be told apart; "
                "use kind text to have the answer written out"
            )
        if len({*self.label_words}) != len(self.label_words):
            raise InvalidInputError(f"task {self.name}: label words must all differ")
        if self.prompt.endswith((" ", "}")):
            raise InvalidInputError(f"task {self.name}: the prompt must end in a word, before the space of the answer")

    def _check_options(self) -> None:
        self._refuse("label_words", "answer")
        if len(self.options) < 2 or not all(self.options):
            raise InvalidInputError(f"task {self.name}: kind options needs two options or more, got {self.options}")
        if len({*self.options}) != len(self.options):
            raise InvalidInputError(f"task {self.name}: options must all differ")
        if self.label_names and len(self.label_names) != len(self.options):
            raise InvalidInputError(f"task {self.name}: label_names and options differ in number")
        object.__setattr__(self, "label_names", self.label_names or self.options)

    def _check_text(self) -> None:
        self._refuse("label_names", "label_words", "options")
        if not self.answer:
            raise InvalidInputError(f"task {self.name}: kind text needs answer, a column or a template")

    def _refuse(self, *fields: str) -> None:
        for field in fields:
            if getattr(self, field):
                raise InvalidInputError(f"task {self.name}: {field} is not for kind {self.kind}; leave it out")

    @property
    def counted(self) -> str:
        """What a run counts as right in each evaluation: ``accuracy``, or of written text ``exact_match``."""
        return METRICS[self.kind][0]

    @property
    def num_classes(self) -> int:
        """C, the labels or options; 0 for kind text."""
        return len(self.label_names)

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


def check_fields(columns: Iterable[str], where: str) -> None:
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
    from zorba_core.data.catalogue.reading import read

    for name in _CATALOGUE:
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
