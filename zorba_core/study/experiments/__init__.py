"""Experiments that test the paper's claims: what to run, running it, and reading what came out. Reading needs no torch.

from zorba_core.study.experiments import read_results
results = read_results("lambda")        # artifacts/experiments/lambda/standard/{runs,curves}.parquet
"""

from zorba_core.study.experiments.definitions import EXPERIMENTS
from zorba_core.study.experiments.specs import PROFILES, Experiment, RunSpec
from zorba_core.study.experiments.store import Results, read_results

__all__ = [
    "EXPERIMENTS",
    "PROFILES",
    "Experiment",
    "Results",
    "RunSpec",
    "read_results",
]
