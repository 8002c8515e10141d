"""Rows that bring their own options: trained, used, judged, exported, and federated with a file for each client."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

import zorba_core as zorba
from tests.runs.cards import run_card
from tests.runs.resumable import ALLOCATION, SETTINGS

ASPECTS = ("food", "staff", "room", "music", "show", "book")
TASK = """
name = "reasons"
kind = "options"
prompt = "{remark} because"
options = ["first", "it was {second}"]
label_names = ["one", "two"]

[rows]
train = "rows.jsonl"
label = "right"
"""


def rows_of(site: str) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "remark": f"the {aspect} was good in the {site} , {number}",
                "first": f"the {aspect} is new",
                "second": f"old {site}",
                "right": ("one", "two")[number % 2],
                "answer": f"{aspect} in the {site}",
            }
            for number, aspect in enumerate(ASPECTS * 6)
        ]
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "reasons.toml").write_text(TASK)
    (tmp_path / "clients").mkdir()
    frames = {site: rows_of(site) for site in ("north", "south", "east")}
    for site, frame in frames.items():
        frame.to_json(tmp_path / "clients" / f"{site}.jsonl", orient="records", lines=True)
    everything = pd.concat(frames.values())
    everything.to_json(tmp_path / "rows.jsonl", orient="records", lines=True)
    everything.head(12).assign(remark=lambda f: f["remark"] + " again").to_csv(tmp_path / "test.csv", index=False)
    return tmp_path


def test_options_of_ones_own_rows_are_trained_used_judged_and_exported(folder, tiny_opt_folder):
    run = zorba.fine_tune(
        ALLOCATION,
        data=folder / "reasons.toml",
        model=tiny_opt_folder,
        settings=SETTINGS,
        runs_folder=folder / "runs",
        force=True,
    )
    assert run.environment["data"]["metric"] == "accuracy"
    asked = {"remark": "The text to classify", "first": "the first option", "second": "the second option"}
    answer = run.predict([asked])
    assert answer["prediction"][0] in ("one", "two")
    scored = run.evaluate(str(folder / "test.csv"))
    assert scored.after.rows == 12
    assert scored.describe()["per_label"].keys() == {"one", "two"}
    own = run.evaluate()
    assert own.accuracy == run.summary["final_accuracy"]
    assert sum(entry["rows"] for entry in own.per_client) > 0
    card = run_card(run.export(folder / "model"))
    scores = torch.tensor(list(card.names["scores"].values()))
    assert card.printed == ("first", "second")[int(scores.argmax())]
    same = run.predict([{**asked, "second": "so"}])["probability"][0]  # "it was so"
    changed = run_card(folder / "model", "'the second option'", "'it was so'")
    scores = torch.tensor(list(changed.names["scores"].values()))
    assert float(torch.softmax(scores, 0).max()) == pytest.approx(same, abs=1e-5)
