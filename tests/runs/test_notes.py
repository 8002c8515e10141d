"""What people say of runs lies beside them, and deleted runs come back whole."""

from __future__ import annotations

import json

import pytest

from tests.app.written_runs import write_run
from tests.damage import call
from zorba_core.errors import InvalidInputError
from zorba_core.runs import list_runs, read_run
from zorba_core.runs.notes import NOTES, Notes, notes_or_none, read_notes, write_notes
from zorba_core.runs.trash import TRASH, discard, discarded, empty_trash, restore
from zorba_core.study.comparison import folder_records, groups, labels


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "runs", [0.5, 0.6], seed=0)


def test_notes_come_back_and_empty_ones_leave_no_file(run):
    assert read_notes(run) == Notes()
    notes = Notes.of("  the\x1b[31m best\n one ", "first line\r\nsecond\x00", ["paper", "paper", "", "x" * 99])
    assert notes == Notes("the [31m best one", "first line\nsecond", ("paper", "x" * 40))
    write_notes(run, notes)
    assert read_notes(run) == notes
    assert read_run(run).name == run.name
    write_notes(run, Notes())
    assert not (run / NOTES).exists()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"tags": 3}', b'{"label": 7}', b'{"tags": [1]}', b"\xff", b"[" * 9_000, b" " * 200_000]
)
def test_damaged_notes_are_named_and_hide_no_run(run, content):
    (run / NOTES).write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"notes\.json: "):
        read_notes(run)
    assert notes_or_none(run)[0] == Notes()
    listing = folder_records(run.parent)
    assert [record.name for record in listing.records] == [run.name]
    assert NOTES in listing.notes[0]


def test_a_changed_note_is_noticed_by_its_checksum(run):
    write_notes(run, Notes.of("best"))
    text = (run / NOTES).read_text()
    (run / NOTES).write_text(text.replace("best", "worst"))
    with pytest.raises(InvalidInputError, match="checksum"):
        read_notes(run)


def test_a_label_is_the_name_of_a_curve_and_of_a_group_that_shares_it(tmp_path):
    paths = [write_run(tmp_path, [0.5, 0.6], seed=seed, lr=lr) for lr in (0.1, 0.2) for seed in (0, 1)]
    for path in paths[:2]:
        write_notes(path, Notes.of("the small rate"))
    write_notes(paths[2], Notes.of("alone"))
    records = folder_records(tmp_path).records
    assert {"the small rate", "alone"} <= set(labels(records))
    assert len(labels(records)) == 4
    assert sorted(groups(records)) == ["lr 0.2", "the small rate"]


def test_the_command_lists_labels_and_tags_and_filters_by_tag(tmp_path):
    first, second = (write_run(tmp_path, [0.5, 0.6], seed=seed) for seed in (0, 1))
    before = json.loads(call("runs", str(tmp_path), "--json").out)["runs"]
    write_notes(first, Notes.of("the good one", "why", ["paper", "sst2"]))
    after = json.loads(call("runs", str(tmp_path), "--json").out)["runs"]
    assert [{k: v for k, v in row.items() if k not in ("label", "note", "tags")} for row in after] == [
        {k: v for k, v in row.items() if k not in ("label", "note", "tags")} for row in before
    ]
    (row,) = json.loads(call("runs", str(tmp_path), "--tag", "paper", "--tag", "sst2", "--json").out)["runs"]
    assert (row["run"], row["label"], row["note"], row["tags"]) == (
        first.name,
        "the good one",
        "why",
        ["paper", "sst2"],
    )
    assert "the good one #paper #sst2" in call("runs", str(tmp_path)).out
    assert second.name not in call("runs", str(tmp_path), "--tag", "paper").out
    assert "none of 2 runs has the tag zzz" in call("runs", str(tmp_path), "--tag", "zzz").out


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


def test_a_run_that_is_gone_cannot_be_named_or_deleted(run):
    discard(run)
    with pytest.raises(InvalidInputError, match="does not exist any more"):
        write_notes(run, Notes.of("late"))
    with pytest.raises(InvalidInputError, match="cannot delete"):
        discard(run)
