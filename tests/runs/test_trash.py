"""Deleted runs come back whole."""

from __future__ import annotations

import pytest

from tests.app.written_runs import write_run
from zorba_core.errors import InvalidInputError
from zorba_core.runs import list_runs, read_run
from zorba_core.runs.trash import TRASH, discard, discarded, empty_trash, restore


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "runs", [0.5, 0.6], seed=0)


def test_a_deleted_run_comes_back_whole_and_a_second_of_its_name_waits(run):
    folder, files = run.parent, sorted(path.name for path in run.iterdir())
    first = discard(run)
    assert list_runs(folder) == ((), ())
    again = write_run(folder, [0.5, 0.7], seed=0)
    second = discard(again)
    assert {row.entry for row in discarded(folder)} == {first, second}
    assert {row.name for row in discarded(folder)} == {run.name}
    assert restore(folder, first) == run
    assert sorted(path.name for path in run.iterdir()) == files
    with pytest.raises(InvalidInputError, match="a run of this name is there"):
        restore(folder, second)
    assert empty_trash(folder) == 1
    assert discarded(folder) == []
    assert read_run(run).name == run.name


@pytest.mark.parametrize("entry", ["", "..", "../other", "a/b"])
def test_only_entries_of_the_trash_are_restored(run, entry):
    discard(run)
    with pytest.raises(InvalidInputError, match="no entry of the trash"):
        restore(run.parent, entry)
    assert (run.parent / TRASH / run.name).is_dir()


def test_a_run_that_is_gone_cannot_be_deleted(run):
    discard(run)
    with pytest.raises(InvalidInputError, match="cannot delete"):
        discard(run)
