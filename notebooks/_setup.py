"""What every notebook starts with: pictures stored beside the interactive figures, and quiet logs."""

import warnings

import pandas as pd
import plotly.io as pio

from zorba_core.plots.pictures import OFFLINE, can_be_made


def figures_as_png_and_plotly(scale: float = 1.5) -> None:
    """Store each figure twice: a PNG that shows without a kernel, and plotly's own format, interactive in JupyterLab.

    The PNG needs Chromium; without it only the interactive figure is stored.
    """
    pd.set_option(
        "display.max_rows", 100, "display.max_columns", 20, "display.width", 140, "display.max_colwidth", None
    )
    if not can_be_made():
        pio.renderers.default = "plotly_mimetype"
        return
    import kaleido

    # One browser for the whole notebook: 0.2 s a picture where a new one each time takes 3 s.
    kaleido.start_sync_server(silence_warnings=True, **OFFLINE)
    # plotly passes options that a running server already has; it says so at each picture.
    warnings.filterwarnings("ignore", message="The kopts argument is ignored", category=UserWarning)
    pio.renderers["png"].scale = scale
    pio.renderers.default = "png+plotly_mimetype"
