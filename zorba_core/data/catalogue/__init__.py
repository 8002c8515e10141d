"""The tasks of this package, a TOML file each. Only here may a file name code: the function that makes its rows."""

from __future__ import annotations

import tomllib
from pathlib import Path

from zorba_core.data import toy_reviews
from zorba_core.data.task import MadeRows, Task, task_from

CATALOGUE = (  # in the order that help and pages show them
    "sst2", "ag_news", "snli", "toy_reviews", "toy_verdicts",
    "rte", "boolq", "cb", "wic", "wsc", "multirc", "qqp", "trec", "banking77", "copa",
    "squad", "drop", "xsum", "gsm8k", "alpaca", "dolly",
)  # fmt: skip


def read(name: str) -> Task:
    """The task of ``NAME.toml`` beside this module."""
    table = tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))
    made_by = table["rows"].pop("made_by", None)
    if made_by is None:
        return task_from(table)
    return task_from(table, made=MadeRows(getattr(toy_reviews, made_by), **table["rows"]))
