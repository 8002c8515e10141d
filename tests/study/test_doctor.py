"""``zorba doctor`` on machines where something is amiss."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import sys
from collections import namedtuple

import pandas as pd
import pytest

from zorba_core.cli import main
from zorba_core.runs.model_source import models_folder
from zorba_core.study import doctor
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


def found(name: str, runs_folder="artifacts/runs"):
    (finding,) = [finding for finding in examine(runs_folder) if finding.name == name]
    return finding


def test_this_environment_can_train_and_the_command_says_so(zorba, tmp_path):
    code, out, err = zorba("doctor", "--runs-folder", str(tmp_path / "none" / "yet"), "--json")
    result = json.loads(out)
    assert (code, err, result["healthy"]) == (0, "", True)
    states = {finding["name"]: finding["state"] for finding in result["findings"]}
    assert {"python", "packages", "torch", "base model", "runs folder"} <= {n for n, s in states.items() if s == "ok"}
    assert all((finding["state"] == "ok") == (finding["cure"] == "") for finding in result["findings"])
    assert not (tmp_path / "none").exists()  # looking changes nothing
    code, out, _ = zorba("doctor", "--runs-folder", str(tmp_path))
    assert code == 0
    assert out.endswith("nothing is broken\n")


def test_a_changed_base_model_is_broken_and_the_status_is_1(zorba, tmp_path, monkeypatch):
    shutil.copytree(models_folder() / "opt-mini", tmp_path / "opt-mini")
    weights = tmp_path / "opt-mini" / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    monkeypatch.setenv("ZORBA_MODELS", str(tmp_path))
    code, out, _ = zorba("doctor", "--runs-folder", str(tmp_path))
    assert code == 1
    assert "BROKEN  base model" in out
    assert out.endswith("1 broken\n")
    monkeypatch.setenv("ZORBA_MODELS", str(tmp_path / "none"))
    assert "make-base" in found("base model").found


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


def test_a_runs_folder_without_room_or_with_a_stray_is_said(tmp_path, monkeypatch):
    (tmp_path / "stray").mkdir()
    assert "stray: not a run folder" in found("runs folder", tmp_path).found
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage(10, 10, 10**7))
    assert found("runs folder", tmp_path).state == "broken"
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage(10, 10, 10**9))
    (tmp_path / "stray").rmdir()
    assert found("runs folder", tmp_path).cure == "saved models need more room"
