"""The task of a user's data: a file of rows, a task's TOML file, a DataFrame, or a Task.

From rows, the column of the label, the columns of text, the prompt and the label words are inferred; each can be given
instead.
"""

from __future__ import annotations

import csv
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pandas as pd

from zorba_core.data.cells import check_columns, formulas
from zorba_core.data.conversations import ANSWER, QUESTION
from zorba_core.data.labels import label_text, label_texts, with_labels
from zorba_core.data.own_rows import read_rows
from zorba_core.data.prompts import words_for
from zorba_core.data.sources import describe_files, files_of
from zorba_core.data.task import (
    CLIENT,
    FIELD,
    MAX_LABELS,
    PLACE,
    Overrides,
    Table,
    TableRows,
    Task,
    checked_table,
    read_task,
)
from zorba_core.data.templates import TEMPLATES, prompts_of, read_templates
from zorba_core.errors import InvalidInputError, in_short, name_some
from zorba_core.tables import is_empty

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_log = logging.getLogger(__name__)
Data = Table | Task
_LABELS = (
    "label", "labels", "class", "category", "target", "topic", "intent", "sentiment", "queue", "department", "type",
    "tag", "emotion", "verdict", "rating", "stars", "priority", "gold_label", "y",
)  # fmt: skip
_OF_CLASSES = frozenset(_LABELS) - {"target", "y", "rating", "stars"}
_CLIENTS = (
    "client", "customer", "user", "author", "hospital", "site", "branch", "office", "device", "region", "source",
)  # fmt: skip
_ANSWERS = {  # column of the question -> columns of the answer
    "instruction": ("output", "response", "answer", "completion"),
    "prompt": ("completion", "response", "answer", "output"),
    "question": ("answer", "answers", "response", "reply"),
    "query": ("answer", "response"),
    "q": ("a", "answer"),
    "document": ("summary",),
    "article": ("summary", "highlights"),
    "dialogue": ("summary",),
    "input": ("output",),
    "source": ("target",),
}
_WRITTEN = frozenset(answer for answers in _ANSWERS.values() for answer in answers)
_TEXTS = (
    "text", "sentence", "sentence1", "sentence2", "review", "body", "message", "content", "description", "title",
    "subject", "premise", "hypothesis", "question", "question1", "question2", "passage", "context", "document",
    "comment", "tweet", "utterance", "instruction", "input", "query", "prompt", "article", "dialogue", "source",
)  # fmt: skip
_NO_TEXT = re.compile(r"(^|[_\W])(id|uid|uuid|idx|index|url|link|date|time|timestamp|email|created|updated)($|[_\W])")
_MOST_TEXTS, _MOST_GRADES = 4, 20  # different numbers that are grades or numbers of classes
_LEAST_WORDS = 3  # mean, in a column of text
_TEMPLATES_ENDING = ".txt"
_MOST_READ = 5_000  # rows that are read to infer a task


def task_for(
    data: Data,
    overrides: Overrides | None = None,
    tokenizer: Callable[[], PreTrainedTokenizerBase | None] = lambda: None,
) -> Task:
    """The task of a path or a table in memory; or a given task, completed by the labels of its rows. Each inferred
    value is a line of the log.

    Args:
        overrides: values that replace inferred ones, or entries of a task file.
        tokenizer: returns the model's tokenizer, to choose label words; called only if they are inferred.

    Raises:
        InvalidInputError, MissingDataError: no such file, or a task cannot be inferred from its rows.
    """
    overrides = overrides or Overrides()
    if isinstance(data, Task):
        return _changed(data, overrides)
    table: Table = checked_table(data)
    if isinstance(table, str | os.PathLike) and os.fspath(table).lower().endswith(".toml"):
        return _changed(read_task(table), overrides)
    rows = TableRows(table, test=overrides.test, sheet=overrides.sheet)
    frame = read_rows(rows)  # before the tokenizer, so that an error in the file is reported first
    named = (overrides.text, overrides.label, overrides.answer, given_prompt(overrides))
    if "conversations" in frame.attrs and not any(named):
        label = next((name for name in _LABELS if name in frame), None)
        overrides = replace(overrides, text=(QUESTION,), label=label, answer=None if label else ANSWER)
    return infer_task(rows, frame, overrides, task_name(table), tokenizer())


def task_name(data: Table) -> str:
    """A task's name from its file's: support-tickets-2 for ``Support Tickets (2).csv``, clients for
    ``clients/*.csv``."""
    if isinstance(data, pd.DataFrame):
        return "table"
    path = Path(data)
    stem = path.parent.name if set("*?[") & set(path.name) else path.stem
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:60].strip("-") or "task"


def _changed(task: Task, overrides: Overrides) -> Task:
    """The task with the user's overrides, and with its labels."""
    if not isinstance(task.rows, TableRows):
        return _with_words(replace(task, prompt=overrides.prompt or task.prompt), overrides.label_words)
    if overrides.text and not overrides.prompt:
        raise InvalidInputError("the task file has a prompt; give --prompt with the columns of --text in braces")
    given: dict[str, Any] = {
        name: getattr(overrides, name) for name in ("label", "client", "test", "sheet") if getattr(overrides, name)
    }
    changes: dict[str, Any] = {"prompt": overrides.prompt or task.prompt}
    if overrides.answer:
        changes |= {"kind": "text", "answer": overrides.answer, "options": ()}
    if overrides.answer or overrides.label not in (None, task.rows.label):
        changes |= {"label_names": (), "label_words": (), "prior": ()}
        given |= {"label_values": ()}
    rows = replace(task.rows, **given)
    task = replace(task, rows=rows, **changes)
    if task.kind == "labels" and not task.label_names:
        frame = read_rows(rows)
        check_columns(frame, [rows.label_column])
        rows, names = with_labels(rows, frame)
        words = overrides.label_words or task.label_words or names
        task = replace(task, rows=rows, label_names=names, label_words=words)
    return _with_words(task, overrides.label_words)


def _with_words(task: Task, words: tuple[str, ...]) -> Task:
    """The task with these label words, if there are any, and without the prior of its former ones."""
    return replace(task, label_words=words, prior=()) if words and words != task.label_words else task


def infer_task(
    rows: TableRows,
    whole: pd.DataFrame,
    overrides: Overrides,
    name: str,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> Task:
    """Infer the task of ``rows``.

    Args:
        whole: the result of :func:`zorba_core.data.own_rows.read_rows`.
        tokenizer: label words with one token each are preferred.

    Raises:
        InvalidInputError: a column is missing or cannot be inferred; the message names the option that gives it.
    """
    frame = whole.head(_MOST_READ)
    check_columns(
        frame, [column for column in (*overrides.text, overrides.label, overrides.answer, overrides.client) if column]
    )
    if overrides.label and overrides.answer:
        raise InvalidInputError("give --label or --answer, not both: a label is chosen, an answer is written")
    profiles = {column: _profile(frame.loc[:, column]) for column in frame.columns if column not in (PLACE, CLIENT)}
    if not any(profile.text for profile in profiles.values()):
        raise InvalidInputError(
            f"{rows.origin} has no column of text or numbers: {name_some([*profiles], 12)} hold lists or objects; give "
            "a column of text and one of the label or the answer (for a conversation: the question and the answer)"
        )
    try:
        target = _target(profiles, overrides)
        column, prompt = target.column, given_prompt(overrides)
        same_as_label = [] if target.is_written else _same_as_label(frame, profiles, column)
        text = overrides.text or tuple(FIELD.findall(prompt or ""))
        text = text or _texts(profiles, {column, overrides.client, *same_as_label})
    except InvalidInputError as error:
        cause = _cause(frame, profiles)
        raise InvalidInputError(formulas(frame, frame.columns) or f"{error}{cause and f'; {cause}'}") from None
    if empty := formulas(frame, (*text, column)):
        raise InvalidInputError(empty)
    _check_fields([name for name in (*text, *([column] if target.is_written else [])) if name in profiles], rows)
    rows = replace(rows, label=None if target.is_written else column, client=overrides.client or rows.client)
    if target.is_written:
        chat = bool(getattr(tokenizer, "chat_template", None))
        prompt = default_prompt(text, None if chat else column) if prompt is None else prompt
        task = Task(name=name, kind="text", prompt=prompt, answer=column, rows=rows, chat=chat)
    else:
        rows, names = with_labels(rows, whole)
        words = overrides.label_words or words_for(names, tokenizer)
        if len(words) != len(names):
            raise InvalidInputError(
                f"{len(words)} label words are given and column {column} has {len(names)} labels "
                f"({name_some(names)}); give a word for each, in this order"
            )
        prompts = ()
        if prompt is None:
            prompts = prompts_of(read_templates(_templates_file(overrides)), texts_of_prompt(text), _plain(column))
            prompt = prompts[0]
        task = Task(name=name, prompt=prompt, prompts=prompts, label_names=names, label_words=words, rows=rows)
    for line in inferred_lines(task, rows, frame, overrides, target.others, same_as_label):
        _log.info("%s", line)
    return task


def _check_fields(columns: Iterable[str], rows: TableRows) -> None:
    """Refuse columns whose names cannot be fields of a prompt."""
    for column in columns:
        if not FIELD.fullmatch(f"{{{column}}}"):
            plain = re.sub(r"[{}\s]+", "_", column).strip("_") or "text"
            raise InvalidInputError(
                f"the column {in_short(column)} has a brace or a line break in its name, which a prompt cannot have: "
                f"rename it in {rows.origin}, to {in_short(plain)} for example"
            )


def default_prompt(text: Sequence[str], asked: str | None) -> str:
    """``"{text} Topic:"`` for one column of text, ``"Subject: {subject} Body: {body} Topic:"`` for several. Without
    ``asked`` the last word is left out: a chat template marks the answer itself."""
    return texts_of_prompt(text) + (f" {_titled(asked)}:" if asked else "")


def texts_of_prompt(text: Sequence[str]) -> str:
    """The part of a prompt with the columns of text: ``"{text}"``, or ``"Subject: {subject} Body: {body}"``."""
    return " ".join(f"{{{column}}}" if len(text) == 1 else f"{_titled(column)}: {{{column}}}" for column in text)


def given_prompt(overrides: Overrides) -> str | None:
    """The prompt that the user gave; None without one, or for a file of templates to choose from."""
    prompt = overrides.prompt
    return None if prompt is None or prompt.endswith(_TEMPLATES_ENDING) else prompt


def _templates_file(overrides: Overrides) -> Path:
    return TEMPLATES if overrides.prompt is None else Path(overrides.prompt)


def _titled(column: str) -> str:
    words = _plain(column)
    return words[:1].upper() + words[1:]


def _plain(column: str) -> str:
    return re.sub(r"[_\W]+", " ", column).strip() or "answer"


@dataclass(frozen=True)
class _Profile:
    """Statistics of a column's cells that are not empty."""

    distinct: int
    rows: int
    words: float  # mean
    number: bool  # all are numbers
    least: float  # of numbers
    most: float
    whole: bool  # all are whole numbers
    text: bool  # all are texts or numbers, not lists or objects

    @property
    def is_class(self) -> bool:
        """Whether there are few different values."""
        return self.text and 2 <= self.distinct <= min(MAX_LABELS, max(2, self.rows // 3))

    def is_quantity(self, column: str) -> bool:
        """Whether the values are numbers to be measured, such as prices, and not numbers of classes."""
        if not self.number or self.distinct <= _MOST_GRADES:
            return False
        in_order = self.least in (0, 1) and self.most - self.least < 1.5 * self.distinct  # classes 0 to C - 1
        coded = in_order or column.strip().casefold() in _OF_CLASSES
        return not (self.whole and coded) or 2 * self.distinct > self.rows

    @property
    def is_long(self) -> bool:
        """Whether the values are sentences."""
        return self.words >= _LEAST_WORDS


def _profile(column: pd.Series) -> _Profile:
    values = [value for value in column if not is_empty(value)]
    plain = all(isinstance(value, str | int | float | bool) for value in values)
    texts = [label_text(value) for value in values] if plain else []
    words = sum(len(text.split()) for text in texts) / max(1, len(texts))
    decimals = pd.Series(texts, dtype=object).str.replace(",", ".")
    numbers = cast(pd.Series, pd.to_numeric(decimals, errors="coerce")).astype(float)
    number, whole = bool(numbers.notna().all()), bool((numbers % 1 == 0).all())
    span = (cast(float, numbers.min()), cast(float, numbers.max()))
    return _Profile(len({*texts}), len(values), words, number, *span, whole, plain and bool(values))


class _Target(NamedTuple):
    """The column that the model learns."""

    column: str
    is_written: bool  # an answer to write, not a label to choose
    others: Sequence[str] = ()  # other columns that may be the label


def _target(profiles: dict[str, _Profile], overrides: Overrides) -> _Target:
    """The column of the label or of the answer.

    Raises:
        InvalidInputError: no column can be the label.
    """
    if overrides.answer:
        return _Target(overrides.answer, is_written=True)
    if overrides.label:
        return _Target(overrides.label, is_written=False)
    by_name = {column.strip().casefold(): column for column in profiles}
    for question, answers in _ANSWERS.items():
        for answer in answers:
            column = by_name.get(answer)
            # A few short answers are labels; sentences are written, even if there are only a few.
            if question in by_name and column and (not profiles[column].is_class or profiles[column].is_long):
                return _Target(column, is_written=True)
    free = {
        column: profile for column, profile in profiles.items() if column not in (*overrides.text, overrides.client)
    }
    named = [by_name[name] for name in _LABELS if by_name.get(name) in free]
    quantities = [column for column in free if profiles[column].is_quantity(column)]
    if named and {*named} <= {*quantities}:
        raise _looks_measured(named[0], profiles[named[0]])
    named = [column for column in named if column not in quantities]
    if named:
        return _Target(named[0], is_written=False, others=named[1:])
    classes = [
        column
        for column, profile in free.items()
        if profile.is_class
        and column not in quantities
        and not profile.is_long
        and not _NO_TEXT.search(column.casefold())
        and not column.casefold().startswith(_CLIENTS)
    ]
    if not classes and any(profiles[column].is_class for column in quantities):
        last = [column for column in quantities if profiles[column].is_class][-1]
        raise _looks_measured(last, profiles[last])
    if not classes:
        raise InvalidInputError(
            f"the column of the label cannot be inferred from {name_some([*profiles], 12)}; name it (--label), or "
            "name a column of answers to generate (--answer)"
        )
    of_text = [column for column in classes if not profiles[column].number] or classes
    return _Target(of_text[-1], is_written=False, others=[name for name in classes if name != of_text[-1]])


def _cause(frame: pd.DataFrame, profiles: dict[str, _Profile]) -> str:
    """What the rows show of why no column of text or label is among them; empty if nothing."""
    if len(sheets := frame.attrs.get("sheets", ())) > 1:
        return f"this is the sheet {sheets[0]}; others are {name_some(sheets[1:], 4)} (--sheet)"
    if nested := [column for column, profile in profiles.items() if profile.rows and not profile.text]:
        return (
            f"lists or objects are in {name_some(nested, 4)}: make a column of each part (pandas.json_normalize), and "
            "one text of a list of words"
        )
    if len(profiles) > 1 and {*profiles} == {*frame.attrs.get("partial", {})}:
        return "the files have no column in common: give all the same header, or write one table with text and label"
    if len(profiles) == 1:
        return "it is the only column: write the names of the columns, such as text,label, above rows that have both"
    return ""


def _looks_measured(column: str, profile: _Profile) -> InvalidInputError:
    return InvalidInputError(
        f"column {column} has {profile.distinct:,} different numbers in {profile.rows:,} rows, {profile.least:g} to "
        f"{profile.most:g}: it looks like a quantity, and a classification chooses among a few kinds; group the "
        f"numbers in a column of words such as low and high, or if they are kinds, name it (--label {column})"
    )


def _same_as_label(frame: pd.DataFrame, profiles: dict[str, _Profile], label: str) -> list[str]:
    """Columns that repeat the label in other words: their values correspond to the labels one to one."""
    labels = label_texts(frame, label)
    count = len({*labels})
    same = [
        column for column, profile in profiles.items() if column != label and profile.distinct == count < profile.rows
    ]
    return [column for column in same if len({*zip(labels, map(label_text, frame[column]), strict=True)}) == count]


def _texts(profiles: dict[str, _Profile], taken: Iterable[str | None]) -> tuple[str, ...]:
    free = {
        column: profile
        for column, profile in profiles.items()
        if column not in taken and profile.text and not profile.number
    }
    chosen = [
        column
        for column, profile in free.items()
        if column.casefold() in _TEXTS or (profile.is_long and not _NO_TEXT.search(column.casefold()))
    ]
    chosen = chosen or sorted(free, key=lambda column: -free[column].words)[:1]
    if not chosen:
        raise InvalidInputError(f"no column of text among {name_some([*profiles], 12)}; name it with --text")
    longest = sorted(chosen, key=lambda column: -free[column].words)[:_MOST_TEXTS]
    return tuple(column for column in chosen if column in longest)


def inferred_lines(
    task: Task,
    rows: TableRows,
    frame: pd.DataFrame,
    overrides: Overrides,
    others: Sequence[str],
    same_as_label: Sequence[str],
) -> Iterator[str]:
    """A line for each part of the task; an inferred part has the option that replaces it.

    Args:
        rows: those of the task.
        frame: the rows that were read.
        others: other columns that may be the label.
        same_as_label: columns that repeat the label in other words.
    """
    yield f"task {task.name}: {len(frame):,} rows{' read' if len(frame) == _MOST_READ else ''}"
    if files := describe_files(rows):
        yield f"  files   {files}"
    if len(sheets := frame.attrs.get("sheets", ())) > 1:
        yield _line("sheet", f"{sheets[0]}; not read: {name_some(sheets[1:], 4)}", "--sheet", overrides.sheet)
    if talks := frame.attrs.get("conversations"):
        yield f"  chat    {talks}"
    if spelled := frame.attrs.get("spelled"):
        yield f"  columns {name_some(spelled, 3)}"
    yield _line("text", ", ".join(task.text_columns), "--text", overrides.text or overrides.prompt)
    if rows.label:
        counts = Counter(text for text in label_texts(frame, rows.label) if text)
        shown = name_some([f"{name} {count}" for name, count in counts.most_common()], 8)
        also = f"; could also be {', '.join(others)}" if others else ""
        yield _line("label", f"{rows.label}: {shown}{also}", "--label", overrides.label)
        yield _line("words", name_some(task.label_words, 12), "--label-words", overrides.label_words)
    else:
        yield _line("answer", task.answer, "--answer", overrides.answer)
    prompt = f"the best of {len(task.prompts)} before training" if task.prompts else task.prompt
    yield _line("prompt", prompt + (", a turn of the model's chat" if task.chat else ""), "--prompt", overrides.prompt)
    for column in same_as_label:
        is_read = column in task.text_columns
        yield f"  {'warning' if is_read else 'note   '} {column} repeats the label in other words" + (
            ": the prompt contains its answer; leave it out of --text" if is_read else " and is left out of the prompt"
        )
    if rows.label and not overrides.label and rows.label.strip().casefold() in _WRITTEN:
        yield (
            f"  note    {rows.label} has few different values, so the model chooses among them; to have it write the "
            f"answer: --answer {rows.label}"
        )
    if rows.test is None and files_of(rows, "test") is None:
        yield _line("test", f"{rows.test_fraction:.0%} of the rows, by a hash of their text", "--test", None)


def _line(what: str, value: str, option: str, overrides: object) -> str:
    return f"  {what:<7} {value}" + ("" if overrides else f"   [inferred; {option}]")


def joined(words: Iterable[str]) -> str:
    """The text that :func:`listed` reads as these words."""
    return ", ".join(f'"{word}"' if "," in word else word for word in words)


def listed(text: str) -> list[str]:
    """The words of a text with commas between them; a word with a comma is in double quotes.

    Raises:
        InvalidInputError: the text has more than one line.
    """
    try:
        return [word.strip() for word in next(csv.reader([text.strip()], skipinitialspace=True), [])]
    except csv.Error as error:
        raise InvalidInputError(f"the words {text[:60]!r} cannot be read as one line of a table ({error})") from None
