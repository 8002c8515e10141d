"""What every notebook starts with: imports from ``notebooks.reproduction``, figures that show without a kernel, wide
tables, and what is stored with the project. It works in the checkout and in a copy under any name."""

from __future__ import annotations

import os
import sys
import types
import warnings
from pathlib import Path

import pandas as pd
import plotly.io as pio

from zorba_core.files import read_json
from zorba_core.installed import artifacts
from zorba_core.plots.pictures import kaleido_options

# The reproduction is no installed package. A notebook's kernel starts in this folder, whose name need not be notebooks.
_package = types.ModuleType("notebooks")
_package.__path__ = [str(Path(__file__).resolve().parent)]
sys.modules.setdefault("notebooks", _package)


def start(scale: float = 1.5) -> None:
    """Show each figure as plotly's own, interactive in JupyterLab. With PLOTLY_RENDERER=png show a picture, which needs
    no kernel."""
    pd.set_option("display.max_rows", 100, "display.max_columns", 20, "display.max_colwidth", None)
    if os.environ.get("PLOTLY_RENDERER") != "png":
        pio.renderers.default = "plotly_mimetype"
        return
    import kaleido

    # One browser for the whole notebook: a new one for each picture takes most of the time.
    kaleido.start_sync_server(silence_warnings=True, **kaleido_options())
    # plotly passes options that a running server already has; it says so at each picture.
    warnings.filterwarnings("ignore", message="The kopts argument is ignored", category=UserWarning)
    pio.renderers["png"].scale = scale


def experiment(name: str) -> pd.DataFrame:
    """An experiment's table; empty where none of its runs has been made yet (notebooks.reproduction makes them)."""
    from notebooks.reproduction.sweep import read_table

    return read_table(name, stored("experiments"), missing_ok=True)


def stored(place: str) -> Path:
    """A file or folder of the project's stored results."""
    return artifacts() / place


def claims(*names: str) -> pd.DataFrame:
    """These claims as they are stored: what the paper says, what was measured, and the verdict."""
    rows = {row["id"]: row for row in read_json(stored("claims.json"))}
    return pd.DataFrame([rows[name] for name in names]).set_index("id")[["says", "measured", "verdict"]]
