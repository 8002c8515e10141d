"""Damaged allocations, sizes and targets: refused in one line by name; nothing else is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import call, check_refused, tree
from zorba_core.allocation import allocation_from_file
from zorba_core.errors import InvalidInputError


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.json", b'{"num_blocks": 1e400, "blocks_per_client": [[0]]}', "num_blocks is inf; it must be a whole"),
        ("a.json", b"[1]", "want an object with num_blocks and blocks_per_client"),
        ("a.json", b"\xff\xfe{", "not UTF-8 text"),
        (
            "a.csv",
            b"client;num_blocks;blocks\n0;2;0\n",
            "its first line must name the columns",
        ),
        ("a.csv", b"client,num_blocks,blocks\n0,2\n", "line 2: want whole numbers"),
        ("a.csv", b"client,num_blocks,blocks\n1,2,0\n0,3,1\n", "num_blocks must be one number in all rows"),
    ],
)
def test_a_damaged_allocation_says_what_is_wrong_with_it(tmp_path, name, content, says):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidInputError) as error:
        allocation_from_file(path)
    assert says in str(error.value)


@pytest.mark.parametrize(
    "request_",
    [
        ["train", "--method", "decomfl", "--clients", "1000000000"],
        ["train", "--budgets", "2", "--clients", "1000000000"],
        ["allocate", "--model", "opt-125m", "--clients", "1000000000"],
        ["allocate", "--budgets", "3,2", "--blocks", "1000000000"],
        ["pareto", "--epsilons", "1000000000"],
        ["pareto", "--clients", "1000000", "--epsilons", "1000"],
        ["vram", "--clients", "1000000000", "--total-blocks", "1000000000"],
    ],
)
def test_a_size_that_cannot_fit_is_refused_before_anything_is_allocated(request_):
    left = call(*request_)
    check_refused(left)
    assert left.status == 2


@pytest.mark.parametrize("target", ["folder.json", "file/x.json"])
def test_a_place_where_nothing_can_be_written_is_refused_before_and_nothing_is_left(tmp_path, monkeypatch, target):
    monkeypatch.chdir(tmp_path)
    Path("folder.json").mkdir()
    Path("file").write_text("")
    before = tree(tmp_path)
    for request_ in (
        ["allocate", "--budgets", "3,2", "--blocks", "3", "--save", target],
        ["scenario", "--budgets", "3,2", "--blocks", "3", "--total", "5", "--target-lambda", "1.25", "--save", target],
    ):
        left = call(*request_)
        check_refused(left)
        assert left.status == 2
    assert tree(tmp_path) == before
