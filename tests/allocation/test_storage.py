"""Allocations as files: they come back the same, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from zorba_core.allocation import Problem, allocation_from_file, solve, write_allocation
from zorba_core.errors import InvalidInputError, MissingDataError


@pytest.mark.parametrize("ending", ["json", "csv"])
def test_written_and_read_it_is_the_same_matrix(tmp_path, ending):
    allocation = solve(Problem([3, 1, 2], 4), "two-level").allocation
    path = tmp_path / f"allocation.{ending}"
    write_allocation(path, allocation)
    assert (allocation_from_file(path).A_MN == allocation.A_MN).all()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_rows_sorted_by_a_spreadsheet_are_the_same_allocation(tmp_path):
    (tmp_path / "a.csv").write_text("client,num_blocks,blocks\n2,3,2\n1,3,0 1\n0,3,0 1 2\n")
    assert allocation_from_file(tmp_path / "a.csv").blocks_per_client == [[0, 1, 2], [0, 1], [2]]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", b"{}"),
        ("a.json", b'{"num_blocks": 2, "blocks_per_client": [[5]]}'),
        ("a.json", b'{"num_blocks": 99999999999, "blocks_per_client": [[5]]}'),
        ("a.csv", b"client,num_blocks,blocks\n0,2,x\n"),
        ("a.csv", b""),
        ("a.csv", b"client,num_blocks,blocks\n0,2,0\n0,2,1\n"),
        ("a.csv", b"client,num_blocks,blocks\n1,2,0\n2,2,1\n"),
        ("a.txt", b""),
    ],
)
def test_a_file_that_is_no_allocation_is_refused(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=name):
        allocation_from_file(path)


def test_missing_file(tmp_path):
    with pytest.raises(MissingDataError, match="does not exist"):
        allocation_from_file(tmp_path / "a.json")
