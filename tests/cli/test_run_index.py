"""Folders with many runs: rows are kept between calls, and a file that changed is read again."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.app.written_runs import write_run
from tests.damage import call
from zorba_core.runs import index as run_index
from zorba_core.study.comparison import folder_records, metric_of


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


def test_records_of_the_index_say_what_records_of_the_files_say(runs, read, tmp_path, monkeypatch):
    write_run(tmp_path / "runs", [0.4], seed=1, finished=False)
    (runs / "copy-3" / "metrics.parquet").unlink()
    for _ in range(2):  # without an index, and with one
        of_index = folder_records(runs)
        read.clear()
    assert read == []
    monkeypatch.setattr(run_index, "MANY", 100)
    of_files = folder_records(runs)
    assert len(of_index.records) == 8
    assert of_index.problems == of_files.problems
    assert len(of_index.problems) == 1
    for a, b in zip(of_index.records, of_files.records, strict=True):
        for name in (
            "name",
            "config",
            "status",
            "outcome",
            "small_curve",
            "began",
            "settings",
            "method",
            "path",
        ):
            assert getattr(a, name) == getattr(b, name), name
        assert metric_of(a) == metric_of(b)
    assert read == []
    (a, b) = (next(r for r in of.records if r.name == "copy-2") for of in (of_index, of_files))
    assert a.metrics.equals(b.metrics)
    assert (a.environment, a.summary, a.vram_gib) == (b.environment, b.summary, b.vram_gib)
    assert (a.allocation.A_MN == b.allocation.A_MN).all()
