"""Clients with files of their own whose rows bring options, or answers to write."""

from __future__ import annotations

import json

import pandas as pd
import pytest

import zorba_core as zorba
from tests.federation.test_rows_of_clients import BLOCKS, federate  # noqa: F401 - a fixture
from tests.runs.test_option_runs import folder, rows_of  # noqa: F401 - a fixture
from zorba_core.allocation import Problem, solve


@pytest.mark.parametrize("kind", ["options", "text"])
def test_clients_with_their_own_files_choose_and_write_as_a_run_on_all_files_does(
    kind,
    folder,  # noqa: F811
    federate,  # noqa: F811
    tiny_opt_folder,
    train_settings,
):
    rows = {"train": str(folder / "clients" / "*.jsonl"), "test": str(folder / "test.csv")}
    of_kind = {
        "options": {"options": ("first", "it was {second}"), "label_names": ("one", "two")},
        "text": {"answer": "answer"},
    }
    source = zorba.TableRows(**rows, label="right" if kind == "options" else None)
    task = zorba.Task(name="reasons", kind=kind, prompt="{remark} because", rows=source, **of_kind[kind])
    run, own, _ = federate(task, tuple(map(str, sorted((folder / "clients").glob("*.jsonl")))), rows["test"])
    many = run()
    one = zorba.fine_tune(
        solve(Problem(BLOCKS, 3)).allocation,
        data=task,
        model=tiny_opt_folder,
        settings=train_settings,
        force=True,
        runs_folder=folder / "one",
    )
    assert many.summary["weights_sha256"] == one.summary["weights_sha256"]
    assert many.environment["data"]["metric"] == ("accuracy" if kind == "options" else "exact_match")
    assert [len(client._rows) for client in own.values()] == [36, 36, 36]
    asked = json.loads(rows_of("north").head(2).to_json(orient="records"))
    assert len(many.predict(pd.DataFrame(asked))) == 2
