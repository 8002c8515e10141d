"""Data to plotly figures, shared by the notebooks and the dashboard. Nothing here knows about either."""

from zorba_core.plots.allocation import allocation_figure, client_order
from zorba_core.plots.fleet import affordable_figure, vram_figure
from zorba_core.plots.front import PAPER_SCENARIOS, compare_fronts_figure, front_figure, front_order
from zorba_core.plots.labels import labels_figure, labels_per_client
from zorba_core.plots.live import progress_figure
from zorba_core.plots.overview import matrix_picture, parallel_figure
from zorba_core.plots.quality import answer_figure, clients_figure, confusion_figure
from zorba_core.plots.runs import COSTS, MEASURES, curves_figure, learning_curves_figure, measure_title
from zorba_core.plots.theme import DARK, LIGHT, Palette, palette_named
from zorba_core.plots.tradeoff import Axis, Mark, Points, tradeoff_figure

__all__ = [
    "COSTS",
    "DARK",
    "LIGHT",
    "MEASURES",
    "PAPER_SCENARIOS",
    "Axis",
    "Mark",
    "Palette",
    "Points",
    "affordable_figure",
    "allocation_figure",
    "answer_figure",
    "client_order",
    "clients_figure",
    "compare_fronts_figure",
    "confusion_figure",
    "curves_figure",
    "front_figure",
    "front_order",
    "labels_figure",
    "labels_per_client",
    "learning_curves_figure",
    "matrix_picture",
    "measure_title",
    "palette_named",
    "parallel_figure",
    "progress_figure",
    "tradeoff_figure",
    "vram_figure",
]
