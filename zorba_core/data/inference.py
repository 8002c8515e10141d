"""A task from rows alone: which column is the label, which are the text, how to ask, and with which words to answer.

Everything that is inferred can be said instead; what came out is described line by line (:attr:`Inferred.lines`) and
written as a task file, so that it can be read and edited.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pandas as pd

from zorba_core.data.file_rows import CLIENT, PLACE, FileRows, FrameRows
from zorba_core.data.label_words import words_for
from zorba_core.data.labels import MAX_LABELS, label_text, labels_in
from zorba_core.data.tables import is_empty
from zorba_core.data.tasks import FIELD, Task, check_fields
from zorba_core.errors import InvalidInputError, in_short, name_some

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_LABELS = (
    "label", "labels", "class", "category", "target", "topic", "intent", "sentiment", "queue", "department", "type",
    "tag", "emotion", "verdict", "rating", "stars", "priority", "gold_label", "y",
)  # fmt: skip
_CLIENTS = (
    "client",
    "customer",
    "user",
    "author",
    "hospital",
    "site",
    "branch",
    "office",
    "device",
    "region",
    "source",
)
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
_WRITTEN = {answer for answers in _ANSWERS.values() for answer in answers}
_TEXTS = (
    "text", "sentence", "sentence1", "sentence2", "review", "body", "message", "content", "description", "title",
    "subject", "premise", "hypothesis", "question", "question1", "question2", "passage", "context", "document",
    "comment", "tweet", "utterance", "instruction", "input", "query", "prompt", "article", "dialogue", "source",
)  # fmt: skip
_NO_TEXT = re.compile(r"(^|[_\W])(id|uid|uuid|idx|index|url|link|date|time|timestamp|email|created|updated)($|[_\W])")
_MOST_TEXTS = 4
_LEAST_WORDS = 3  # on average, of a column that is taken for text
_LOOKED_AT = 5_000  # rows


@dataclass(frozen=True)
class Said:
    """What the user says of the rows instead of having it inferred."""

    text: tuple[str, ...] = ()
    label: str | None = None
    answer: str | None = None
    prompt: str | None = None
    label_words: tuple[str, ...] = ()
    client: str | None = None
    test: str | None = None


@dataclass(frozen=True, eq=False)
class Inferred:
    """A task, and how it came about in a few lines for people."""

    task: Task
    lines: tuple[str, ...]


def infer_task(
    rows: FileRows | FrameRows, said: Said, name: str, tokenizer: PreTrainedTokenizerBase | None = None
) -> Inferred:
    """The task of ``rows``, of which nothing but where they are is known.

    Args:
        tokenizer: label words that it takes for one token are preferred.

    Raises:
        InvalidInputError: a column that is not there, or nothing to choose from; says which option decides it.
    """
    frame = rows.frame("train").head(_LOOKED_AT)
    profiles = {column: _profile(frame, column) for column in frame.columns if column not in (PLACE, CLIENT)}
    for column in (*said.text, said.label, said.answer, said.client):
        if column is not None and column not in profiles:
            raise InvalidInputError(
                f"there is no column {in_short(column)}; the rows have {name_some([*profiles], 12)}"
            )
    if said.label and said.answer:
        raise InvalidInputError("give --label or --answer, not both: a label is chosen, an answer is written")
    label, answer, others = _asked(profiles, said, len(frame))
    taken = {label, answer, said.client}
    text = said.text or tuple(FIELD.findall(said.prompt or "")) or _texts(profiles, taken)
    check_fields([column for column in (*text, answer) if column in profiles], rows.origin)
    prompt = said.prompt or default_prompt(text, label or answer)
    rows = replace(rows, label=label, client=said.client or rows.client, test=said.test or rows.test)
    if answer:
        task = Task(name=name, kind="text", prompt=prompt, answer=answer, rows=rows)
    else:
        names = labels_in(rows, name)
        if said.label_words and len(said.label_words) != len(names):
            raise InvalidInputError(
                f"{len(said.label_words)} label words are given and column {label} has {len(names)} labels "
                f"({name_some(names)}); give a word for each, in this order"
            )
        words = said.label_words or words_for(names, tokenizer)
        task = Task(name=name, prompt=prompt, label_names=names, label_words=words, rows=rows)
    return Inferred(task, tuple(_described(task, frame, said, others)))


def default_prompt(text: Sequence[str], asked: str) -> str:
    """``"{text} Topic:"`` for one column of text, ``"Subject: {subject} Body: {body} Topic:"`` for several."""
    parts = [f"{{{column}}}" if len(text) == 1 else f"{_titled(column)}: {{{column}}}" for column in text]
    return f"{' '.join(parts)} {_titled(asked)}:"


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
    text: bool  # values are texts, not lists or objects


def _profile(frame: pd.DataFrame, column: str) -> _Profile:
    values = [value for value in frame[column] if not is_empty(value)]
    plain = [value for value in values if isinstance(value, str | int | float | bool)]
    texts = [label_text(value) for value in plain]
    words = sum(len(text.split()) for text in texts) / max(1, len(texts))
    return _Profile(len(set(texts)), len(values), words, all(map(_is_number, texts)), len(plain) == len(values) > 0)


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _asked(
    profiles: dict[str, _Profile], said: Said, rows: int
) -> tuple[str | None, str | None, list[str]]:  # label, answer, columns that could have been the label
    if said.label or said.answer:
        return said.label, said.answer, []
    by_name = {column.strip().casefold(): column for column in profiles}
    for asks, answers in _ANSWERS.items():
        for answer in answers:
            column = by_name.get(answer)
            if asks in by_name and column and not _is_class(profiles[column]):
                return None, column, []
    free = {column: profile for column, profile in profiles.items() if column not in (*said.text, said.client)}
    named = [by_name[name] for name in _LABELS if by_name.get(name) in free]
    if named:
        return named[0], None, named[1:]
    classes = [
        column
        for column, profile in free.items()
        if _is_class(profile)
        and profile.words < _LEAST_WORDS
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


def _is_class(profile: _Profile) -> bool:
    """Whether few values come again and again."""
    return profile.text and 2 <= profile.distinct <= min(MAX_LABELS, max(2, profile.rows // 3))


def _texts(profiles: dict[str, _Profile], taken: set[str | None]) -> tuple[str, ...]:
    free = {
        column: profile
        for column, profile in profiles.items()
        if column not in taken and profile.text and not profile.number
    }
    chosen = [
        column
        for column, profile in free.items()
        if column.casefold() in _TEXTS or (profile.words >= _LEAST_WORDS and not _NO_TEXT.search(column.casefold()))
    ]
    chosen = chosen or sorted(free, key=lambda column: -free[column].words)[:1]
    if not chosen:
        raise InvalidInputError(f"no column of text among {name_some([*profiles], 12)}; name it with --text")
    longest = sorted(chosen, key=lambda column: -free[column].words)[:_MOST_TEXTS]
    return tuple(column for column in chosen if column in longest)


def _described(task: Task, frame: pd.DataFrame, said: Said, others: Sequence[str]) -> list[str]:
    rows = task.rows
    lines = [f"task {task.name}: {len(frame):,} rows{' looked at' if len(frame) == _LOOKED_AT else ''}"]
    lines.append(_line("text", ", ".join(task.text_columns), "--text", bool(said.text or said.prompt)))
    if rows.label:
        counts = Counter(label_text(value) for value in frame[rows.label] if not is_empty(value))
        shown = name_some([f"{name} {count}" for name, count in counts.most_common()], 8)
        also = f"; could also be {', '.join(others)}" if others else ""
        lines.append(_line("label", f"{rows.label}: {shown}{also}", "--label", said.label))
        lines.append(_line("words", name_some(task.label_words, 12), "--label-words", said.label_words))
    else:
        lines.append(_line("answer", task.answer, "--answer", said.answer))
    lines.append(_line("prompt", task.prompt, "--prompt", said.prompt))
    if rows.label and not said.label and rows.label.strip().casefold() in _WRITTEN:
        lines.append(
            f"  note    few values of {rows.label} come again and again, so the model chooses among them; to have it "
            f"write them: --answer {rows.label}"
        )
    lines += _same_ids(frame)
    if not rows.test:
        lines.append(_line("test", f"{rows.test_fraction:.0%} of the rows, by a hash of their text", "--test", None))
    return lines


def _same_ids(frame: pd.DataFrame) -> list[str]:
    """A line about rows that share an id, where a column is called so: they may be one row twice."""
    column = next((column for column in frame.columns if column.strip().casefold() in ("id", "uid", "uuid")), None)
    if column is None:
        return []
    again = frame[frame[column].map(str).duplicated() & ~frame[column].map(is_empty)]
    if again.empty:
        return []
    places = name_some(again[PLACE].tolist(), 3)
    return [
        f"  note    {len(again)} rows have an {column} that is there already ({places}): all are used; remove copies"
    ]


def _line(what: str, value: str, option: str, said: object) -> str:
    return f"  {what:<7} {value}" + ("" if said else f"   [inferred; {option}]")
