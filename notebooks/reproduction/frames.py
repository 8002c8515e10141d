"""Parts of pandas tables with their types. pandas's own types do not say whether a mask gives a table or a column."""

from __future__ import annotations

from typing import Any, cast

import pandas as pd


def where(table: pd.DataFrame, mask: Any) -> pd.DataFrame:
    """The rows at which ``mask`` is true."""
    return cast(pd.DataFrame, table[mask])


def groups(table: pd.DataFrame, by: str | list[str], *, sort: bool = True) -> list[tuple[Any, pd.DataFrame]]:
    """Each key, a tuple for several columns, with its rows."""
    return cast("list[tuple[Any, pd.DataFrame]]", list(table.groupby(by, sort=sort)))


def mean_by(table: pd.DataFrame, by: str, column: str) -> pd.Series:
    """The mean of a column for each value of ``by``."""
    return cast(pd.Series, table.groupby(by)[column].mean())
