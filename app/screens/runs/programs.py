"""What the Runs page shows as a program and as a command. No Streamlit in here."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from app.screens.runs.reading import Source
from app.screens.runs.toolbar import CurvesAsked, OutcomesAsked
from zorba_core.study.comparison import Record


def of_curves(
    source: Source,
    records: Sequence[Record],
    asked: CurvesAsked,
    baseline: str | None,
    hidden: Sequence[str] = (),
) -> str:
    """A program that draws the same curves. ``baseline``: name of the pinned curve; ``hidden``: of those left out."""
    panel = _arguments(cost=asked.cost, smoothing=asked.smoothing or None, band=asked.band)
    figure = _arguments(
        baseline=baseline, log_cost=asked.log_cost or None, log_loss=asked.log_loss or None, hidden=hidden or None
    )
    return (
        f"from zorba_core.study.comparison import {source.imported}, panel_of\n"
        "from zorba_core.plots import curves_figure\n\n"
        f"{_reading(source, records)}"
        f"panels = [panel_of(records, measure=measure, {panel}) for measure in {list(asked.measures)!r}]\n"
        f"curves_figure(panels{figure and ', '}{figure}).show()\n"
    )


def of_outcomes(source: Source, records: Sequence[Record], asked: OutcomesAsked, picked: Sequence[str]) -> str:
    """A program that draws the same dots."""
    cloud = _arguments(x=asked.x, y=asked.y, kind=asked.kind, band=asked.band)
    figure = _arguments(picked=list(picked) or None, log_x=asked.log_x or None, log_y=asked.log_y or None)
    return (
        f"from zorba_core.study.comparison import cloud_of, {source.imported}\n"
        "from zorba_core.plots import outcomes_figure\n\n"
        f"{_reading(source, records)}"
        f"cloud = cloud_of(records, {cloud})\n"
        f"outcomes_figure(cloud{figure and ', '}{figure}).show()\n"
    )


def command(source: Source, records: Sequence[Record]) -> str:
    """The command that lists the same runs with their settings and outcomes."""
    only = shlex.join([word for record in records for word in ("--only", record.name)])
    return f"{source.command} {only} --json"


def _reading(source: Source, records: Sequence[Record]) -> str:
    listed = "".join(f"    {record.name!r},\n" for record in records)
    return (
        f"names = [\n{listed}]\n"
        f"by_name = {{record.name: record for record in {source.python}.records}}\n"
        "records = [by_name[name] for name in names]\n"
    )


def _arguments(**arguments: Any) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items() if value is not None)
