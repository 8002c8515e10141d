"""A task from rows alone: which column is the label, which are the text, how to ask, and with which words to answer.

The user may say any of it instead. A run keeps the task as a file that can be edited.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pandas as pd

from zorba_core.data.describe import LOOKED_AT, inferred_lines
from zorba_core.data.own_rows import check_columns, label_text, label_texts, read_rows, with_labels
from zorba_core.data.prompts import words_for
from zorba_core.data.task import CLIENT, FIELD, MAX_LABELS, PLACE, Overrides, TableRows, Task
from zorba_core.errors import InvalidInputError, in_short, name_some
from zorba_core.tables import is_empty

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_LABELS = (
    "label", "labels", "class", "category", "target", "topic", "intent", "sentiment", "queue", "department", "type",
    "tag", "emotion", "verdict", "rating", "stars", "priority", "gold_label", "y",
)  # fmt: skip
_CLIENTS = (
    "client", "customer", "user", "author", "hospital", "site", "branch", "office", "device", "region", "source",
)  # fmt: skip
_ANSWERS = {  # what is asked -> what is answered
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
_TEXTS = (
    "text", "sentence", "sentence1", "sentence2", "review", "body", "message", "content", "description", "title",
    "subject", "premise", "hypothesis", "question", "question1", "question2", "passage", "context", "document",
    "comment", "tweet", "utterance", "instruction", "input", "query", "prompt", "article", "dialogue", "source",
)  # fmt: skip
_NO_TEXT = re.compile(r"(^|[_\W])(id|uid|uuid|idx|index|url|link|date|time|timestamp|email|created|updated)($|[_\W])")
_MOST_TEXTS = 4
_LEAST_WORDS = 3  # on average, of a column that is taken for text


def infer_task(
    rows: TableRows,
    overrides: Overrides,
    name: str,
    tokenizer: PreTrainedTokenizerBase | None = None,
    notice: Callable[[str], None] = lambda line: None,
) -> Task:
    """The task of ``rows``, of which only the place is known. ``tokenizer``: label words of one token are preferred.

    Raises:
        InvalidInputError: a column that is missing, or nothing to choose from; names the option that decides it.
    """
    whole = read_rows(rows)
    frame = whole.head(LOOKED_AT)
    check_columns(
        frame, [column for column in (*overrides.text, overrides.label, overrides.answer, overrides.client) if column]
    )
    if overrides.label and overrides.answer:
        raise InvalidInputError("give --label or --answer, not both: a label is chosen, an answer is written")
    profiles = {column: _profile(frame[column]) for column in frame.columns if column not in (PLACE, CLIENT)}
    if not any(profile.text for profile in profiles.values()):
        raise InvalidInputError(
            f"{rows.origin} has no column of text or numbers: {name_some([*profiles], 12)} hold lists or objects; give "
            "a column of text and one of the label or the answer (of a conversation: what is asked, what is answered)"
        )
    label, answer, others = _asked(profiles, overrides)
    same_as_label = [] if answer else _same_as_label(frame, profiles, label)
    text = overrides.text or tuple(FIELD.findall(overrides.prompt or ""))
    text = text or _texts(profiles, {label, answer, overrides.client, *same_as_label})
    for column in (*text, answer):
        if column in profiles and not FIELD.fullmatch(f"{{{column}}}"):
            plain = re.sub(r"[{}\s]+", "_", column).strip("_") or "text"
            raise InvalidInputError(
                f"the column {in_short(column)} has a brace or a line break in its name, which a prompt cannot hold: "
                f"rename it in {rows.origin}, to {in_short(plain)} for example"
            )
    chat = bool(answer and getattr(tokenizer, "chat_template", None))
    common = {"name": name, "prompt": overrides.prompt or default_prompt(text, None if chat else label or answer)}
    rows = replace(rows, label=label, client=overrides.client or rows.client)
    if answer:
        task = Task(kind="text", answer=answer, rows=rows, chat=chat, **common)
    else:
        rows, names = with_labels(rows, whole)
        words = overrides.label_words or words_for(names, tokenizer)
        if len(words) != len(names):
            raise InvalidInputError(
                f"{len(words)} label words are given and column {label} has {len(names)} labels "
                f"({name_some(names)}); give a word for each, in this order"
            )
        task = Task(label_names=names, label_words=words, rows=rows, **common)
    for line in inferred_lines(task, frame, overrides, others, same_as_label):
        notice(line)
    return task


def default_prompt(text: Sequence[str], asked: str | None) -> str:
    """``"{text} Topic:"`` for one column of text, ``"Subject: {subject} Body: {body} Topic:"`` for several; without the
    last word where nothing is ``asked``, as in a chat, whose template says who answers."""
    parts = [f"{{{column}}}" if len(text) == 1 else f"{_titled(column)}: {{{column}}}" for column in text]
    return " ".join([*parts, f"{_titled(asked)}:"] if asked else parts)


def _titled(column: str) -> str:
    words = re.sub(r"[_\W]+", " ", column).strip()
    return (words[:1].upper() + words[1:]) or "Answer"


@dataclass(frozen=True)
class _Profile:
    """What a column looks like."""

    distinct: int
    rows: int  # that are not empty
    words: float  # on average
    number: bool  # every value is one
    text: bool  # values are texts or numbers, not lists or objects

    @property
    def is_class(self) -> bool:
        """Do few values come again and again?"""
        return self.text and 2 <= self.distinct <= min(MAX_LABELS, max(2, self.rows // 3))


def _is_text(profile: _Profile) -> bool:
    return profile.words >= _LEAST_WORDS


def _profile(column: pd.Series) -> _Profile:
    values = [value for value in column if not is_empty(value)]
    plain = all(isinstance(value, str | int | float | bool) for value in values)
    texts = [label_text(value) for value in values] if plain else []
    words = sum(len(text.split()) for text in texts) / max(1, len(texts))
    numbers = pd.to_numeric(pd.Series(texts, dtype=object).str.replace(",", "."), errors="coerce").notna().all()
    return _Profile(len({*texts}), len(values), words, bool(numbers), plain and bool(values))


def _asked(profiles: dict[str, _Profile], overrides: Overrides) -> tuple[str | None, str | None, list[str]]:
    """The label, or the answer, and columns that could have been the label."""
    if overrides.label or overrides.answer:
        return overrides.label, overrides.answer, []
    by_name = {column.strip().casefold(): column for column in profiles}
    for question, answers in _ANSWERS.items():
        for answer in answers:
            column = by_name.get(answer)
            # Few short answers that come again and again are labels; sentences are written, also where they come again.
            if question in by_name and column and (not profiles[column].is_class or _is_text(profiles[column])):
                return None, column, []
    free = {
        column: profile for column, profile in profiles.items() if column not in (*overrides.text, overrides.client)
    }
    named = [by_name[name] for name in _LABELS if by_name.get(name) in free]
    if named:
        return named[0], None, named[1:]
    classes = [
        column
        for column, profile in free.items()
        if profile.is_class
        and not _is_text(profile)
        and not _NO_TEXT.search(column.casefold())
        and not column.casefold().startswith(_CLIENTS)
    ]
    if not classes:
        raise InvalidInputError(
            f"which column is the label cannot be told from {name_some([*profiles], 12)}; name it with --label, or "
            "with --answer the column of text to be generated"
        )
    of_text = [column for column in classes if not profiles[column].number] or classes
    return of_text[-1], None, [column for column in classes if column != of_text[-1]]


def _same_as_label(frame: pd.DataFrame, profiles: dict[str, _Profile], label: str) -> list[str]:
    """Columns that say the label in other words: each label has its value there, which comes again."""
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
        if column.casefold() in _TEXTS or (_is_text(profile) and not _NO_TEXT.search(column.casefold()))
    ]
    chosen = chosen or sorted(free, key=lambda column: -free[column].words)[:1]
    if not chosen:
        raise InvalidInputError(f"no column of text among {name_some([*profiles], 12)}; name it with --text")
    longest = sorted(chosen, key=lambda column: -free[column].words)[:_MOST_TEXTS]
    return tuple(column for column in chosen if column in longest)
