"""Does the rate decide whether the gain ranks orders of blocks?

``python -m tests.benchmarks.bench_predictor_rates WORK``

An exploration, thought of after ``artifacts/experiments/predictors`` was complete: of one matrix the order of blocks
with the larger gain learned faster in two cells of four, and those were the two whose rate, from trials, was 0.03; it
was 0.06 and 0.09 in the others. Here the rates change places: the same matrices, orders and seeds 0 to 2, at 0.09 where
it was 0.03 and at 0.03 where it was more. Expected before the runs, were the rate the reason: the correlation falls in
the first two cells and rises in the others. 288 runs, about 25 minutes of one core; WORK keeps finished ones. Beside
each, the same seeds at the rate of the experiment, from its tables. Writes JSON; decides nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd

from tests.app.serving import ROOT
from zorba_core.checksums import write_sealed
from zorba_core.study.experiments import EXPERIMENTS, Experiment, RunSpec, read_results, run_experiment
from zorba_core.study.experiments import predictors as planned
from zorba_core.study.experiments.predictor_study import Cell, areas, within_matrices
from zorba_core.study.experiments.store import Results

NAME, SEEDS = "predictor-rates", (0, 1, 2)
OTHER_RATE: Mapping[Cell, float] = {
    ("opt-mini", "toy-reviews"): 9e-2,
    ("llama-mini", "sst2"): 9e-2,
    ("opt-mini", "sst2"): 3e-2,
    ("llama-mini", "toy-reviews"): 3e-2,
}


def main(work: Path, target: Path) -> None:
    before = read_results(planned.NAME)
    EXPERIMENTS[NAME] = Experiment(NAME, __doc__.splitlines()[0], lambda profile, runs: _specs(before))
    after = run_experiment(NAME, workers=2, root=work)
    cells = []
    for cell, rate in OTHER_RATE.items():
        own = before.runs[(before.runs["model"] == cell[0]) & (before.runs["dataset"] == cell[1])]
        first = replace(before, runs=own[own["seed"].isin(SEEDS)])
        cells.append(
            {
                "cell": cell,
                "rate_of_the_experiment": float(own.loc[own["role"] == "measure", "lr"].iloc[0]),
                "other_rate": rate,
                "within": {"experiment": _within(first, cell), "other": _within(after, cell)},
                "mean_area": {
                    "experiment": float(areas(first, cell).to_numpy().mean()),
                    "other": float(areas(after, cell).to_numpy().mean()),
                },
                "diverged_at_other_rate": int((_of(after, cell)["status"] != "finished").sum()),
            }
        )
    write_sealed(target, {"what": __doc__.splitlines()[0], "seeds": SEEDS, "cells": cells})
    print(target.read_text())


def _specs(before: Results) -> list[RunSpec]:
    """The experiment's own requests at the other rate; wave by wave a seed of each cell."""
    specs = []
    for row in before.runs[(before.runs["role"] == "measure") & before.runs["seed"].isin(SEEDS)].itertuples():
        spec = RunSpec.from_request(json.loads(row.config)["request"])
        rate = OTHER_RATE[spec.model, spec.dataset]
        specs.append(replace(spec, arm=row.arm, settings={**spec.settings, "lr": rate}, wave=spec.seed))
    return specs


def _of(results: Results, cell: Cell) -> pd.DataFrame:
    return results.runs[(results.runs["model"] == cell[0]) & (results.runs["dataset"] == cell[1])]


def _within(results: Results, cell: Cell) -> dict[str, float]:
    return within_matrices(results, [cell])._asdict()


if __name__ == "__main__":
    main(Path(sys.argv[1]), ROOT / "artifacts" / "benchmarks" / "predictor-rates.json")
