"""What every notebook starts with: figures that show without a kernel, wide tables, and the experiments' tables."""

from __future__ import annotations

import os
import warnings

import pandas as pd
import plotly.io as pio

from zorba_core.plots.pictures import kaleido_options
from zorba_core.study.sweep import read_table


def start(scale: float = 1.5) -> None:
    """Show each figure as plotly's own, interactive in JupyterLab; with PLOTLY_RENDERER=png as a picture, which needs no
    kernel."""
    pd.set_option("display.max_rows", 100, "display.max_columns", 20, "display.max_colwidth", None)
    if os.environ.get("PLOTLY_RENDERER") != "png":
        pio.renderers.default = "plotly_mimetype"
        return
    import kaleido

    # One browser for the whole notebook: 0.2 s a picture where a new one each time takes 3 s.
    kaleido.start_sync_server(silence_warnings=True, **kaleido_options())
    # plotly passes options that a running server already has; it says so at each picture.
    warnings.filterwarnings("ignore", message="The kopts argument is ignored", category=UserWarning)
    pio.renderers["png"].scale = scale


def experiment(name: str) -> pd.DataFrame:
    """An experiment's table; empty where none of its runs has been made yet (zorba reproduce makes them)."""
    return read_table(name, "../artifacts/experiments", missing_ok=True)
