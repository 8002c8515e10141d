"""What the user says of rows, and what was inferred of the rest, in lines for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from zorba_core.data.labels import label_texts
from zorba_core.data.task import Task
from zorba_core.errors import name_some

LOOKED_AT = 5_000  # rows
_WRITTEN = {  # columns that are answers to write in many published sets
    "output", "response", "answer", "answers", "completion", "reply", "a", "summary", "highlights", "target",
}  # fmt: skip


@dataclass(frozen=True)
class Said:
    """What the user says of the rows instead of having it inferred."""

    text: tuple[str, ...] = ()
    label: str | None = None
    answer: str | None = None
    prompt: str | None = None
    label_words: tuple[str, ...] = ()
    client: str | None = None
    test: str | pd.DataFrame | None = None


def described(
    task: Task, frame: pd.DataFrame, said: Said, others: Sequence[str], telling: Sequence[str]
) -> Iterator[str]:
    """A line for each part of the task, with the option that says it instead where it was inferred.

    Args:
        frame: the rows looked at.
        others: columns that could have been the label.
        telling: columns that say the label in other words.
    """
    rows = task.rows
    yield f"task {task.name}: {len(frame):,} rows{' looked at' if len(frame) == LOOKED_AT else ''}"
    yield _line("text", ", ".join(task.text_columns), "--text", bool(said.text or said.prompt))
    if rows.label:
        counts = Counter(text for text in label_texts(frame, rows.label) if text)
        shown = name_some([f"{name} {count}" for name, count in counts.most_common()], 8)
        also = f"; could also be {', '.join(others)}" if others else ""
        yield _line("label", f"{rows.label}: {shown}{also}", "--label", said.label)
        yield _line("words", name_some(task.label_words, 12), "--label-words", said.label_words)
    else:
        yield _line("answer", task.answer, "--answer", said.answer)
    yield _line("prompt", task.prompt, "--prompt", said.prompt)
    for column in telling:
        is_read = column in task.text_columns
        yield f"  {'warning' if is_read else 'note   '} {column} says the label in other words" + (
            ": the prompt contains its answer; leave it out of --text" if is_read else " and is left out of the prompt"
        )
    if rows.label and not said.label and rows.label.strip().casefold() in _WRITTEN:
        yield (
            f"  note    few values of {rows.label} come again and again, so the model chooses among them; to have it "
            f"write them: --answer {rows.label}"
        )
    if rows.test is None:
        yield _line("test", f"{rows.test_fraction:.0%} of the rows, by a hash of their text", "--test", None)


def _line(what: str, value: str, option: str, said: object) -> str:
    return f"  {what:<7} {value}" + ("" if said else f"   [inferred; {option}]")
