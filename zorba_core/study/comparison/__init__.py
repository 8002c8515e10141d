"""Runs compared with each other: what each of them is, how they differ, and their curves as numbers.
No torch and no plotly in here; :mod:`zorba_core.plots` draws it.

from zorba_core.study.comparison import experiment_records, panel_of
from zorba_core.plots import curves_figure
records = experiment_records("tables").records
curves_figure([panel_of(records, measure="eval_accuracy", cost="bytes", band="interval")]).show()
"""

from zorba_core.study.comparison.curves import (
    BANDS,
    Curve,
    curve_of,
    group_of,
    metric_of,
    metrics_of,
    smoothed,
    target_reached,
)
from zorba_core.study.comparison.names import groups, labels
from zorba_core.study.comparison.panel import CurvePanel, panel_of
from zorba_core.study.comparison.records import Listing, Record, experiment_records, experiments_there
from zorba_core.study.comparison.run_folders import folder_records

__all__ = [
    "BANDS",
    "Curve",
    "CurvePanel",
    "Listing",
    "Record",
    "curve_of",
    "experiment_records",
    "experiments_there",
    "folder_records",
    "group_of",
    "groups",
    "labels",
    "metric_of",
    "metrics_of",
    "panel_of",
    "smoothed",
    "target_reached",
]
