"""Gradients measured beside a run (``--diagnostics k``): what scalars and measures of an allocation only estimate.

A simulation has a backward pass, so every client's gradient g_nm of every block m can be computed. Before the first
round, and after every k rounds, it is: at the weights of that moment, each client on the mini-batch that it draws in
the round to come. Nothing of the run depends on it. The run's folder gets ``diagnostics.parquet``, one row for each
time (:mod:`zorba_core.runs.diagnostics.records` has the columns), rewritten whole; ``Run.diagnostics`` reads it. A
finished run's summary names it with its checksum.

    for measured in read_run("artifacts/runs/my-run").diagnostics:
        print(measured.round, measured.energy_M, measured.noise_M, measured.v, measured.e)
"""

from zorba_core.runs.diagnostics.records import (
    DIAGNOSTICS,
    Measured,
    described,
    measured_rounds,
    read_measured,
    read_measured_of,
    write_measured,
)

__all__ = [
    "DIAGNOSTICS",
    "Measured",
    "described",
    "measured_rounds",
    "read_measured",
    "read_measured_of",
    "write_measured",
]
