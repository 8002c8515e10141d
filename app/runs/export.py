"""The comparison as files: numbers to go on computing with, and the figure to put somewhere."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app import components
from app.components import Download
from app.runs.curves import Shown
from app.runs.records import Record
from zorba_core.files import to_json


def draw(chosen: Sequence[Record], shown: Shown, figure: go.Figure) -> None:
    """Buttons for what is on the screen."""
    files = [
        Download("Curves (CSV)", "zorba-curves.csv", "text/csv", lambda: curves_csv(shown), "The curves as drawn."),
        Download(
            "Runs (JSON)",
            "zorba-runs.json",
            "application/json",
            lambda: runs_json(chosen),
            "Settings, provenance and outcome of each chosen run.",
        ),
        Download(
            "Figure (HTML)",
            "zorba-runs.html",
            "text/html",
            lambda: figure.to_html(include_plotlyjs=True).encode(),
            "One file that needs no network; it can be zoomed.",
        ),
    ]
    if importlib.util.find_spec("kaleido") is not None and (shutil.which("chromium") or shutil.which("google-chrome")):
        files.append(
            Download(
                "Figure (PNG)",
                "zorba-runs.png",
                "image/png",
                lambda: figure.to_image(format="png", width=1100, height=560, scale=2),
                "Takes a few seconds. The camera above the figure does the same at once.",
            )
        )
    components.downloads(files, key="export")
    with st.expander("Take it with you: Python, command", icon=":material/code:"):
        python, command = st.tabs(["Copy as Python", "Copy as command"])
        python.code(as_python(chosen, shown), language="python")
        command.code("zorba runs --json  # every run of artifacts/runs, with its outcome", language="bash")


def curves_csv(shown: Shown) -> bytes:
    """One row a point: curve, cost, value, bounds of the band."""
    frames = [
        pd.DataFrame(
            {
                "curve": curve.name,
                "runs": curve.runs,
                "round": curve.round_P,
                shown.cost: curve.x_P,
                shown.measure: curve.y_P,
                "low": curve.low_P,
                "high": curve.high_P,
                "unsmoothed": curve.raw_P,
            }
        )
        for curve in shown.curves
    ]
    table = pd.concat(frames, ignore_index=True)
    return table.loc[:, ~table.columns.duplicated()].to_csv(index=False).encode()


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


def as_python(chosen: Sequence[Record], shown: Shown) -> str:
    """A program that draws the same runs."""
    folders = [str(record.path) for record in chosen if record.path is not None]
    if not folders:
        return "from zorba_core.experiments import read_results\n\nresults = read_results(...)  # see the address\n"
    listed = "".join(f"    zorba.read_run({folder!r}),\n" for folder in folders)
    cost = {"work": "forward_passes", "bytes": "scalars_up"}.get(shown.cost, shown.cost)
    return (
        "import zorba_core as zorba\n"
        "from zorba_core.plots import learning_curves_figure\n\n"
        f"runs = [\n{listed}]\n"
        f"learning_curves_figure(runs, measure={shown.measure!r}, cost={cost!r}).show()\n"
    )
