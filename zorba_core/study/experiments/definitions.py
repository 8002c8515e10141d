"""The experiments by name, in the order in which they matter: those of the paper's claims, then those of our own."""

from __future__ import annotations

from collections.abc import Mapping

from zorba_core.study.experiments import (
    ablations,
    cases,
    elsewhere,
    lambda_law,
    lengths,
    parts,
    predictors,
    tables,
    what_to_run,
)
from zorba_core.study.experiments.specs import Experiment

PAPERS: Mapping[str, Experiment] = {module.NAME: module.EXPERIMENT for module in (cases, lambda_law, tables, ablations)}
OWN: Mapping[str, Experiment] = {
    module.NAME: module.EXPERIMENT for module in (what_to_run, parts, predictors, elsewhere, lengths)
}
EXPERIMENTS: dict[str, Experiment] = {**PAPERS, **OWN}
