"""SNLI: does the second sentence follow from the first? A training row's half goes by its premise, which rows share."""

from __future__ import annotations

from zorba_core.data.division import by_hash_of
from zorba_core.data.sources import PublishedRows
from zorba_core.data.tasks import Task

TASK = Task(
    name="snli",
    title="SNLI",
    about="does the second sentence follow from the first?",
    label_names=("entailment", "neutral", "contradiction"),
    label_words=("Yes", "Maybe", "No"),
    prompt="{premise} Then: {hypothesis} Right?",
    text_columns=("premise", "hypothesis"),
    target=0.4,
    rows=PublishedRows(
        folder="snli",
        hub_name="stanfordnlp/snli",
        evaluation_splits=("validation", "test"),
        official_train_rows=549_367,
        in_base=by_hash_of("premise"),
    ),
)
