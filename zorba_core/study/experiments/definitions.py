"""The experiments by name, in the order in which they matter."""

from __future__ import annotations

from collections.abc import Mapping

from zorba_core.study.experiments import ablations, cases, lambda_law, tables
from zorba_core.study.experiments.specs import Experiment

EXPERIMENTS: Mapping[str, Experiment] = {
    module.NAME: module.EXPERIMENT for module in (cases, lambda_law, tables, ablations)
}
