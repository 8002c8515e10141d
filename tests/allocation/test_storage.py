"""Allocations as files: they come back the same, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from zorba_core.allocation import Problem, allocation_from_file, solve, write_allocation
from zorba_core.errors import InvalidInputError, MissingDataError

NO_ALLOCATIONS = {
    b"{}": "no 'num_blocks'",
    b"[1]": "list indices",
    b"\xff\xfe{": "decode",
    b"client,num_blocks,blocks": "Expecting value",
    b'{"num_blocks": 2, "blocks_per_client": [[5]]}': "client 0: block ids must be distinct and in 0..1",
    b'{"num_blocks": 2, "blocks_per_client": [[0, 0]]}': "client 0: block ids must be distinct and in 0..1",
    b'{"num_blocks": 2, "blocks_per_client": [0]}': "not iterable|no len",
    b'{"num_blocks": 2, "blocks_per_client": []}': "one client or more",
    b'{"num_blocks": 1e400, "blocks_per_client": [[0]]}': "at most 10000 blocks",
    b'{"num_blocks": 99999999999, "blocks_per_client": [[5]]}': "at most 10000 blocks",
}


def test_written_and_read_it_is_the_same_matrix(tmp_path):
    allocation = solve(Problem([3, 1, 2], 4), "two-level").allocation
    write_allocation(tmp_path / "allocation.json", allocation)
    assert (allocation_from_file(tmp_path / "allocation.json").A_MN == allocation.A_MN).all()
    assert [file.name for file in tmp_path.iterdir()] == ["allocation.json"]


def test_a_file_that_is_no_allocation_is_refused_by_name_with_the_reason(tmp_path):
    for content, reason in NO_ALLOCATIONS.items():
        (tmp_path / "a.json").write_bytes(content)
        with pytest.raises(InvalidInputError, match=rf"a\.json: not an allocation \(.*({reason})"):
            allocation_from_file(tmp_path / "a.json")
    with pytest.raises(MissingDataError, match="is not a file"):
        allocation_from_file(tmp_path / "b.json")
