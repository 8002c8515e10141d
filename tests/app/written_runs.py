"""Runs written for tests of the Runs page, and what its tests do with the page."""

from __future__ import annotations

import numpy as np

from app.screens.runs.choose import table_name
from tests.app.shown import shown_key
from zorba_core.allocation import Allocation
from zorba_core.engine.callbacks import RoundRecord
from zorba_core.runs.writer import RunWriter


def write_run(folder, accuracy, *, dirty=False, finished=True, name="toy", vram=1.5, **config):
    allocation = Allocation(np.array([[1, 0, 1], [1, 1, 0]]))
    asked = {"dataset": "toy-reviews", "model": "opt-mini", "target": 0.7, "directions": 2, "num_seeds": 8}
    writer = RunWriter(folder, name, {**asked, **config}, {"torch": "2.13.0", "git_dirty": dirty}, allocation)
    for t, value in enumerate(accuracy):
        writer.on_round(RoundRecord(t, 0.5 if t else None, 1 - value, value, 1.5 * t, 33 * t, 6 * t, 18 * t))
    if finished:
        writer.finish({"stopped_by": "rounds", "vram_gib": {"total": vram}})
    writer.close()
    return writer.path


def three_seeds(folder):
    for lr, accuracy in ((0.01, [0.5, 0.6, 0.65]), (0.02, [0.5, 0.7, 0.8])):
        for seed in range(3):
            write_run(folder, [value + 0.01 * seed for value in accuracy], lr=lr, seed=seed)


def see(app):
    return app.switch_page("screens/runs/runs.py").run()


def texts(app) -> str:
    parts = [*app.title, *app.markdown, *app.caption, *app.warning, *app.info, *app.subheader]
    return "\n".join(part.value for part in parts)


def picked(app) -> list[str]:
    """Names of the runs that are marked in the table."""
    names = list(app.dataframe[0].value["run"])
    _, rows = app.session_state["shown_values"][table_name(names)]
    return [names[row] for row in sorted(rows)]


def pick(app, *rows):
    names = list(app.dataframe[0].value["run"])
    app.session_state[shown_key(app, table_name(names))] = {
        "selection": {"rows": list(rows), "columns": [], "cells": []}
    }
    return app.run()
