"""Sizes and targets: refused in one line by name; nothing else is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import call, check_refused, tree


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
