"""Plotly figures for the notebooks and the dashboard."""

from zorba_core.plots.allocation import allocation_figure, client_order
from zorba_core.plots.front import Stairs, front_figure, stairs_figure
from zorba_core.plots.memory import histogram_figure
from zorba_core.plots.theme import DARK, LIGHT, Palette, palette_named
from zorba_core.plots.training import MEASURES, clients_figure, confusion_figure, curves_figure, learning_curves_figure

__all__ = [
    "DARK",
    "LIGHT",
    "MEASURES",
    "Palette",
    "Stairs",
    "allocation_figure",
    "client_order",
    "clients_figure",
    "confusion_figure",
    "curves_figure",
    "front_figure",
    "histogram_figure",
    "learning_curves_figure",
    "palette_named",
    "stairs_figure",
]
