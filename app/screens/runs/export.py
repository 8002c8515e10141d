"""The comparison as files: its numbers, and its figure."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from app.screens.runs import curves, outcomes
from app.shared import components
from app.shared.components import Download, Picture
from zorba_core.files import to_json
from zorba_core.study.comparison import Cloud, CurvePanel, Record


def draw(
    records: Sequence[Record],
    chosen: Sequence[Record],
    baseline: Record | None,
    drawn: curves.DrawnCurves | outcomes.DrawnOutcomes,
) -> None:
    """Buttons for what is on the screen."""
    if isinstance(drawn, curves.DrawnCurves):
        listed = curves.with_baseline(chosen, baseline)
        first = Download("Curves (CSV)", "zorba-curves.csv", lambda: curves_csv(drawn.panels), "The curves as drawn.")
        name, figure = "zorba-runs", drawn.figure
    else:
        listed = list(records)
        first = Download("Outcomes (CSV)", "zorba-outcomes.csv", lambda: cloud_csv(drawn.cloud), "The dots as drawn.")
        name, figure = "zorba-outcomes", lambda: drawn.figure
    runs = Download(
        "Runs (JSON)",
        "zorba-runs.json",
        lambda: runs_json(listed),
        "Settings, provenance and outcome of each run in the picture.",
    )
    components.downloads([first, runs], key="export", picture=Picture(figure, name))


def curves_csv(panels: Sequence[CurvePanel]) -> bytes:
    """One row a point: curve, round, cost, measure, value, bounds of the band."""
    frames = [
        pd.DataFrame(
            {
                "curve": curve.name,
                "runs": curve.runs,
                "round": curve.round_P,
                panel.cost: curve.x_P,
                "measure": panel.measure,
                "value": curve.y_P,
                "low": curve.low_P,
                "high": curve.high_P,
                "unsmoothed": curve.raw_P,
            }
        )
        for panel in panels
        for curve in panel.curves
    ]
    return pd.concat(frames, ignore_index=True).to_csv(index=False).encode()


def cloud_csv(cloud: Cloud) -> bytes:
    """One row a dot: its name, kind, runs, coordinates and their bounds."""
    rows = [
        {
            "name": dot.name,
            "kind": dot.kind,
            "runs": " ".join(dot.names),
            cloud.x: dot.x,
            f"{cloud.x}_low": dot.x_bounds and dot.x_bounds[0],
            f"{cloud.x}_high": dot.x_bounds and dot.x_bounds[1],
            cloud.y: dot.y,
            f"{cloud.y}_low": dot.y_bounds and dot.y_bounds[0],
            f"{cloud.y}_high": dot.y_bounds and dot.y_bounds[1],
        }
        for dot in cloud.dots
    ]
    return pd.DataFrame(rows).to_csv(index=False).encode()


def runs_json(chosen: Sequence[Record]) -> bytes:
    runs = [
        {
            "run": record.name,
            "status": record.status,
            "outcome": record.outcome,
            "config": record.config,
            "environment": record.environment,
            "summary": record.summary,
        }
        for record in chosen
    ]
    return to_json({"runs": runs}, indent=1).encode()
