"""The experiments by name, in the order in which they matter."""

from __future__ import annotations

from zorba_core.study.experiments import ablations, cases, lambda_law, tables
from zorba_core.study.experiments.specs import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.NAME: module.EXPERIMENT for module in (cases, lambda_law, tables, ablations)
}
