"""The comparison as files: its numbers, and its figure."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from app.screens.runs import curves
from app.shared import components
from app.shared.components import Download, as_pdf
from zorba_core.files import to_json
from zorba_core.study.comparison import CurvePanel, Record


def draw(chosen: Sequence[Record], baseline: Record | None, drawn: curves.DrawnCurves) -> None:
    """Buttons for what is on the screen."""
    files = [
        Download("Curves (CSV)", "zorba-curves.csv", lambda: curves_csv(drawn.panels), "The curves as drawn."),
        Download(
            "Runs (JSON)",
            "zorba-runs.json",
            lambda: runs_json(curves.with_baseline(chosen, baseline)),
            "Settings, provenance and outcome of each run in the picture.",
        ),
        *as_pdf(drawn.figure, "zorba-runs"),
    ]
    components.downloads(files, key="export")


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
