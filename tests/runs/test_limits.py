"""Requests that this machine cannot serve are refused with the number that it can."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.damage import call, check_refused
from tests.runs.resumable import ALLOCATION, SETTINGS
from tests.tiny_models import tiny_model
from zorba_core.data.encoding import _padded
from zorba_core.engine.loop import FederatedRows
from zorba_core.engine.network import BlockNetwork
from zorba_core.errors import InvalidInputError
from zorba_core.planning.memory import GIB
from zorba_core.runs.limits import check_limits
from zorba_core.runs.threads import check_threads


@pytest.fixture
def network() -> BlockNetwork:
    return BlockNetwork(tiny_model("opt"), [5, 6])


@pytest.fixture
def rows() -> FederatedRows:
    return FederatedRows(None, [np.arange(3)] * 3, None)  # only their kind is asked


def check(network, rows, available, force=False, **changes) -> None:
    check_limits(
        network, ALLOCATION, rows, replace(SETTINGS, **changes), force=force, available=lambda: available
    )  # fmt: skip


def test_a_batch_that_does_not_fit_names_the_largest_that_does(network, rows):
    with pytest.raises(
        InvalidInputError, match=r"batch_size is 1000000: .* GiB .* give --batch-size (\d+) or less"
    ) as e:
        check(network, rows, 1 * GIB, batch_size=1_000_000)
    fits = int(re.search(r"--batch-size (\d+)", str(e.value)).group(1))
    assert 100 < fits < 1_000_000
    check(network, rows, 1 * GIB, batch_size=fits, force=True)
    with pytest.raises(InvalidInputError, match="batch_size"):
        check(network, rows, 1 * GIB, batch_size=2 * fits)


def test_a_small_request_fits_and_an_unknown_amount_of_memory_refuses_nothing(network, rows):
    check(network, rows, 1 * GIB)
    check(network, rows, None, batch_size=1_000_000, force=True)


def test_more_than_a_day_is_refused_unless_forced(network, rows):
    with pytest.raises(InvalidInputError, match=r"take at least .* days here; .* --force"):
        check(network, rows, None, rounds=10**8, batch_size=1000)
    check(network, rows, None, rounds=10**8, batch_size=1000, force=True)


def test_threads_that_only_wait_for_each_other_are_refused():
    check_threads(2)
    with pytest.raises(InvalidInputError, match=r"threads is 1000 and this machine has \d+ cores; give at most \d+"):
        check_threads(1000)


@pytest.mark.parametrize("value", ["1_000", "٣", " 3", "0x10", "1e3"])
def test_numbers_are_written_in_plain_digits(value):
    left = call("train", f"--batch-size={value}")
    check_refused(left)
    assert left.status == 2


def test_rows_longer_than_the_model_are_refused_before_they_are_encoded(tiny_opt_folder, tmp_path):
    """A million positions of some thousand rows would take all of the machine's memory."""
    for method in ("zorba", "fedit"):
        left = call(
            "train", "--model", str(tiny_opt_folder), "--clients", "3", "--method", method, "--seq-len", "1000000",
            "--runs-folder", str(tmp_path / "runs"),
        )  # fmt: skip
        check_refused(left)
        assert "seq_len is 1000000 and the model has" in left.err
    with pytest.raises(InvalidInputError, match=r"seq_len is 1000000, too long for 2,000 rows in memory; .* 536870"):
        _padded([[1, 2]] * 2000, 1_000_000, 0)
