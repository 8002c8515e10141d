"""Use what a run made: predict, evaluate and export. The names below load when first used."""

from __future__ import annotations

from zorba_core.lazy import names_on_demand

_HOME = {
    "TunedModel": "tuned_model",
    "evaluate_run": "evaluating",
    "export_run": "export",
    "finished_run": "tuned_model",
    "open_tuned": "tuned_model",
    "predict": "predicting",
}

__all__ = [*_HOME]
__getattr__, __dir__ = names_on_demand(__name__, _HOME)
