"""``zorba doctor`` on machines where something is amiss."""

from __future__ import annotations

import importlib.metadata
import json
import sys

import pandas as pd
import pytest

from zorba_core.cli import main
from zorba_core.study.doctor import examine


@pytest.fixture
def zorba(monkeypatch, capsys):
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["zorba", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        captured = capsys.readouterr()
        return left.value.code or 0, captured.out, captured.err

    return call


def found(name: str):
    (finding,) = [finding for finding in examine() if finding.name == name]
    return finding


def test_this_environment_can_train_and_the_command_says_so(zorba):
    code, out, err = zorba("doctor", "--json")
    result = json.loads(out)
    assert (code, err, result["healthy"]) == (0, "", True)
    states = {finding["name"]: finding["state"] for finding in result["findings"]}
    assert {"python", "packages", "torch"} <= {n for n, s in states.items() if s == "ok"}
    assert all((finding["state"] == "ok") == (finding["cure"] == "") for finding in result["findings"])
    code, out, _ = zorba("doctor")
    assert code == 0
    assert out.endswith("nothing is broken\n")


def test_datasets_are_looked_at_one_by_one(tmp_path, monkeypatch):
    monkeypatch.delenv("ZORBA_DATA", raising=False)
    assert found("data").state == "note"
    monkeypatch.setenv("ZORBA_DATA", str(tmp_path / "none"))
    assert found("data").state == "broken"
    monkeypatch.setenv("ZORBA_DATA", str(tmp_path))
    for name in ("sst2", "ag_news"):
        (tmp_path / name).mkdir()
    rows = pd.DataFrame({"text": ["a fine film"] * 3, "label": [1, 1, 1]})
    for split in ("train", "validation"):
        rows.to_parquet(tmp_path / "sst2" / f"{split}.parquet")
    rows.drop(columns="label").to_parquet(tmp_path / "ag_news" / "train.parquet")
    assert found("data sst2").found == "train 3 rows, validation 3 rows"
    assert (found("data ag_news").state, found("data snli").state) == ("broken", "note")
    assert "no column label" in found("data ag_news").found
    (tmp_path / "sst2" / "train.parquet").write_bytes(b"PAR1 cut short")
    assert found("data sst2").state == "broken"


def test_a_package_outside_its_range_is_named(monkeypatch):
    versions = {"torch": "2.3.0", "streamlit": "1.10.0"}
    version = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: versions.get(name) or version(name))
    assert (found("packages").state, found("packages").found) == ("broken", "torch 2.3.0, want >=2.11")
    assert found("extra app").state == "note"
    assert "streamlit 1.10.0" in found("extra app").found
