"""AG-News: which of four topics is a piece of news about? A training row's half goes by its text."""

from __future__ import annotations

from zorba_core.data.division import by_hash_of
from zorba_core.data.sources import PublishedRows
from zorba_core.data.tasks import Task

TASK = Task(
    name="ag-news",
    title="AG-News",
    about="topic of news, one of four",
    label_names=("World", "Sports", "Business", "Sci/Tech"),
    label_words=("World", "Sports", "Business", "Technology"),
    prompt="{text} Topic:",
    text_columns=("text",),
    target=0.8,
    rows=PublishedRows(
        folder="ag_news",
        hub_name="fancyzhx/ag_news",
        evaluation_splits=("test",),
        official_train_rows=120_000,
        in_base=by_hash_of("text"),
    ),
)
