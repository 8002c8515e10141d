"""Data to plotly figures, shared by the notebooks and the dashboard. Nothing here knows about either."""

from zorba_core.plots.allocation import allocation_figure, client_order
from zorba_core.plots.front import PAPER_SCENARIOS, compare_fronts_figure, front_figure, front_order
from zorba_core.plots.runs import COSTS, MEASURES, learning_curves_figure, target_reached
from zorba_core.plots.theme import DARK, LIGHT, Palette, palette_named

__all__ = [
    "COSTS",
    "DARK",
    "LIGHT",
    "MEASURES",
    "PAPER_SCENARIOS",
    "Palette",
    "allocation_figure",
    "client_order",
    "compare_fronts_figure",
    "front_figure",
    "front_order",
    "learning_curves_figure",
    "palette_named",
    "target_reached",
]
