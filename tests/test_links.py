"""What is written in place, or removed, lies in the folder that was given: a link leads no write and no removal out."""

from __future__ import annotations

import os

import pytest

from app.screens.train import processes
from app.screens.train.jobs import JOBS
from zorba_core.errors import InvalidInputError
from zorba_core.files import atomic_folder, create_new, open_own
from zorba_core.runs import TRAJECTORY
from zorba_core.runs.trajectory import TrajectoryLog


@pytest.fixture
def outside(tmp_path):
    """A folder of another program."""
    folder = tmp_path / "outside"
    folder.mkdir()
    for name in ("block-1", "block-0.writing", "a file"):
        (folder / name).write_text("precious")
    yield folder
    assert sorted(path.name for path in folder.iterdir()) == ["a file", "block-0.writing", "block-1"]
    assert {path.read_text() for path in folder.iterdir()} == {"precious"}


def test_a_folder_whose_name_was_taken_meanwhile_is_named(tmp_path):
    def write_meanwhile():
        with atomic_folder(tmp_path / "model") as folder:
            (folder / "mine").touch()
            (tmp_path / "model").mkdir()
            (tmp_path / "model" / "theirs").touch()

    with pytest.raises(InvalidInputError, match=r"model exists now; give a folder that does not$"):
        write_meanwhile()
    assert [path.name for path in tmp_path.rglob("*")] == ["model", "theirs"]


def start(folder):
    with processes._starting(folder):
        pass


PLACES = [(TRAJECTORY, lambda folder: TrajectoryLog(folder / TRAJECTORY)), (f"{JOBS}/.lock", start)]


@pytest.mark.parametrize(("name", "call"), PLACES, ids=[name for name, _ in PLACES])
@pytest.mark.parametrize("kind", ["link", "device or a pipe"])
def test_a_log_or_a_lock_that_is_no_file_is_refused_and_not_waited_for(tmp_path, outside, name, call, kind):
    path = tmp_path / "folder" / name
    path.parent.mkdir(parents=True)
    os.mkfifo(path) if kind != "link" else path.symlink_to(outside / "a file")
    with pytest.raises(InvalidInputError, match=f"it is a {kind}; move it away"):
        call(tmp_path / "folder")


def test_a_file_of_ones_own_is_opened_as_by_open(tmp_path):
    path = tmp_path / "log"
    for mode, content in (("ab", b"a"), ("ab", b"aa"), ("wb", b"a")):
        with open(path, mode, opener=open_own) as file:
            file.write(b"a")
        assert path.read_bytes() == content


def test_a_new_file_leaves_what_another_name_of_the_old_one_has(tmp_path):
    (tmp_path / "old").write_text("old")
    os.link(tmp_path / "old", tmp_path / "new")
    with open(tmp_path / "new", "wb", opener=create_new) as file:
        file.write(b"new")
    assert ((tmp_path / "old").read_text(), (tmp_path / "new").read_text()) == ("old", "new")
