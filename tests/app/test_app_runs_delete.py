"""On the Runs page: deleting."""

from __future__ import annotations

import contextlib
import shutil

import pytest

from app.screens.runs.delete import remove_run
from tests.app.written_runs import pick, picked, see, texts, write_run
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.runs import TRAJECTORY
from zorba_core.runs.trajectory import TrajectoryLog

pytestmark = pytest.mark.usefixtures("no_experiments")
TIMEOUT_S = 60


@pytest.fixture
def runs(tmp_path):
    for seed, best in enumerate((0.6, 0.7, 0.8)):
        write_run(tmp_path / "runs", [0.5, best], seed=seed)
    return tmp_path / "runs"


@pytest.fixture
def app(app, runs):
    return see(app)


def test_deleting_asks_and_removes_the_folders_of_the_picked_runs(app, runs):
    assert "Delete 3 runs" in [button.label.removesuffix(" for good") for button in app.button]
    pick(app, 0, 1)
    names = picked(app)
    app.button(key="delete_runs").click().run()
    assert not app.exception
    assert len(app.dataframe[0].value) == 1
    assert not any((runs / name).exists() for name in names)
    assert "not here any more" not in texts(app)


@pytest.mark.parametrize("name", ["..", "notes", "link", "", "gone"])
def test_only_runs_of_the_folder_are_removed(runs, tmp_path, name):
    (runs / "notes").mkdir()
    shutil.move(next(runs.glob("toy-*")), tmp_path / "elsewhere")
    (runs / "link").symlink_to(tmp_path / "elsewhere")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises((InvalidInputError, MissingDataError)):
        remove_run(runs, name)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_in_progress_is_not_removed(runs):
    run = next(runs.glob("toy-*"))
    with contextlib.closing(TrajectoryLog(run / TRAJECTORY)), pytest.raises(InvalidInputError, match="in progress"):
        remove_run(runs, run.name)
    assert run.is_dir()
