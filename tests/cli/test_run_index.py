"""Folders with many runs: rows are kept between calls, and a file that changed is read again."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.app.written_runs import write_run
from tests.damage import call
from zorba_core.runs import index as run_index


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setenv("ZORBA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(run_index, "MANY", 5)
    first = write_run(tmp_path / "runs", [0.5, 0.6], seed=0)
    for number in range(7):
        shutil.copytree(first, tmp_path / "runs" / f"copy-{number}")
    return tmp_path / "runs"


@pytest.fixture
def read(monkeypatch):
    names, real = [], run_index.read_run

    def counted(path):
        names.append(path.name)
        return real(path)

    monkeypatch.setattr(run_index, "read_run", counted)
    return names


def test_a_second_listing_reads_no_run_and_says_the_same(runs, read):
    first = call("runs", str(runs), "--json")
    assert len(read) == 8
    assert call("runs", str(runs), "--json") == first
    assert len(read) == 8
    assert [path.name for path in runs.iterdir() if path.name.startswith(".")] == []


def test_what_changed_is_read_again_and_what_is_gone_is_not_listed(runs, read):
    call("runs", str(runs), "--json")
    read.clear()
    shutil.rmtree(runs / "copy-0")
    text = (runs / "copy-1" / "summary.json").read_text()
    (runs / "copy-1" / "summary.json").write_text(text.replace('"stopped_by": "rounds"', '"stopped_by": "target"'))
    result = json.loads(call("runs", str(runs), "--json").out)
    assert read == ["copy-1"]
    assert len(result["runs"]) == 6
    assert "copy-1" in result["problems"][0]  # its checksum does not fit
    assert len(result["problems"]) == 1


def test_a_damaged_index_is_made_again(runs, read, tmp_path):
    first = call("runs", str(runs), "--json")
    (index,) = (tmp_path / "cache").glob("runs-*.json")
    content = index.read_text()
    index.write_text(content.replace("0.6", "0.9"))
    assert call("runs", str(runs), "--json") == first
    assert index.read_text() == content
