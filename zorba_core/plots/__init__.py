"""Data to plotly figures, shared by the notebooks, the report and the dashboard. Nothing here knows about them."""

from zorba_core.plots.allocation import allocation_figure, client_order
from zorba_core.plots.fleet import histogram_figure
from zorba_core.plots.front import PAPER_SCENARIOS, compare_fronts_figure, front_figure, front_order
from zorba_core.plots.quality import clients_figure, confusion_figure
from zorba_core.plots.runs import MEASURES, curves_figure, learning_curves_figure
from zorba_core.plots.stairs import Stairs, stairs_figure
from zorba_core.plots.theme import DARK, LIGHT, Palette, palette_named

__all__ = [
    "DARK",
    "LIGHT",
    "MEASURES",
    "PAPER_SCENARIOS",
    "Palette",
    "Stairs",
    "allocation_figure",
    "client_order",
    "clients_figure",
    "compare_fronts_figure",
    "confusion_figure",
    "curves_figure",
    "front_figure",
    "front_order",
    "histogram_figure",
    "learning_curves_figure",
    "palette_named",
    "stairs_figure",
]
