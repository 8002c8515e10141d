"""Files and folders are whole or absent."""

from __future__ import annotations

import pytest

from zorba_core.errors import InvalidInputError
from zorba_core.files import atomic_folder, write_text


def test_a_folder_whose_name_was_taken_meanwhile_is_named(tmp_path):
    def write_meanwhile():
        with atomic_folder(tmp_path / "model") as folder:
            (folder / "mine").touch()
            (tmp_path / "model").mkdir()
            (tmp_path / "model" / "theirs").touch()

    with pytest.raises(InvalidInputError, match=r"model exists now; give a folder that does not$"):
        write_meanwhile()
    assert [path.name for path in tmp_path.rglob("*")] == ["model", "theirs"]


@pytest.mark.parametrize(
    ("target", "says"), [("folder", "it is a folder"), ("file/x.json", "is not a folder"), ("new/x.json", "")]
)
def test_a_place_where_nothing_can_be_written_is_named_and_left_alone(tmp_path, target, says):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("as before")
    if not says:
        write_text(tmp_path / target, "text")
        assert (tmp_path / target).read_text() == "text"
        return
    with pytest.raises(InvalidInputError, match=says):
        write_text(tmp_path / target, "text")
    assert (tmp_path / "file").read_text() == "as before"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]
