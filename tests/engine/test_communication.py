"""What crosses the wire, counted by hand on a case small enough, and what the paper printed for it."""

from __future__ import annotations

import numpy as np
import pytest

from zorba_core.engine.communication import kinds_of_block, numbers_a_round, run_communication
from zorba_core.errors import InvalidInputError

# Four blocks, three clients; blocks 0 and 3 have the same clients.
A_MN = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 0]], dtype=bool)


def sent(method: str, A_MN=A_MN, **changes):
    return run_communication(
        method,
        A_MN,
        **{"rounds": 5, "reports": 15, "num_directions": 2, "num_seeds": 16, "parameters": 100, "block_parameters": 80}
        | changes,
    )


def test_a_run_counted_by_hand():
    """3 clients, 5 rounds, Q = 2. Paper: 16 seeds and 5 x (2 + 2) numbers down to each client, 5 x 2 up from each.
    Needed: 3 kinds of block, so 5 x (2 + 6) down, and 4 kinds once."""
    found = sent("zorba")
    by_kind = {message.kind: message for message in found.messages}
    assert (found.form, found.kinds_of_block) == ("averages", 3)
    assert {kind: m.messages for kind, m in by_kind.items()} == {"setup": 3, "plan": 15, "report": 15, "aggregate": 15}
    assert {kind: m.paper for kind, m in by_kind.items()} == {"setup": 48, "plan": 30, "report": 30, "aggregate": 30}
    assert {kind: m.needed for kind, m in by_kind.items()} == {"setup": 12, "plan": 30, "report": 30, "aggregate": 90}
    sizes = {"setup": 3 * (1 + 4 * 2), "plan": 15 * (7 + 8), "report": 15 * (4 + 8 + 16), "aggregate": 15 * (4 + 48)}
    assert {kind: m.wire_bytes for kind, m in by_kind.items()} == sizes
    assert found.total("needed", "up") == 30
    assert found.total("needed") == 12 + 30 + 30 + 90
    assert found.describe()["down"]["wire_bytes"] == sum(sizes.values()) - sizes["report"]


def test_blocks_with_the_same_clients_share_an_average_and_one_that_nobody_has_needs_none():
    assert kinds_of_block(A_MN) == 3
    assert kinds_of_block(np.ones((12, 50))) == 1
    unused = A_MN.copy()
    unused[1] = False
    assert kinds_of_block(unused) == 2


def test_with_more_kinds_of_block_than_clients_their_scalars_are_passed_on_instead():
    A = np.array([[1, 0], [0, 1], [1, 1], [1, 0]], dtype=bool)  # 3 kinds, 2 clients
    found = sent("zorba", A, rounds=50, reports=100)
    assert found.form == "scalars"
    aggregate = found.messages[-1]
    assert aggregate.needed == 2 * 100 * 2  # every client hears all scalars
    assert found.messages[0].needed == 2 * 8  # all of A, once, to both
    assert aggregate.wire_bytes == 100 * (4 + 1) + 2 * 100 * 2 * 8
    assert sent("zorba", A, rounds=1, reports=2).form == "averages"  # A costs more than one round saves


def test_with_fewer_reports_there_is_less_to_pass_on_and_silence_sends_nothing():
    A = np.array([[1, 0], [0, 1], [1, 1], [1, 0]], dtype=bool)
    half = sent("zorba", A, rounds=50, reports=50, usable_reports=40)
    assert half.messages[-1].needed == 2 * 40 * 2
    assert half.total("needed", "up") == 50 * 2
    assert half.messages[1].messages == 100  # everyone gets every plan


def test_decomfl_needs_one_average_and_fedzo_and_fedit_every_weight_both_ways():
    full = np.ones((4, 3), dtype=bool)
    assert sent("decomfl", full).messages[-1].needed == 15 * 2
    for method in ("fedzo", "fedit"):
        found = sent(method, full)
        assert found.form == "dense"
        assert (found.total("paper", "up"), found.total("paper", "down")) == (1500, 1500)
        assert (found.total("needed", "up"), found.total("needed", "down")) == (1200, 1200)
        assert found.total("wire_bytes", "up") == 15 * (4 + 8 + 80 * 4)
    assert sent("fedit", full, bytes_per_number=2).total("wire_bytes", "up") == 15 * (12 + 160)
    with pytest.raises(InvalidInputError, match="unknown method"):
        sent("fedavg", full)


def test_the_columns_of_the_metrics_are_the_plain_count():
    assert numbers_a_round("zorba", 50, 12, 10, 0) == (10, 50 * 13 * 10)
    assert numbers_a_round("decomfl", 50, 12, 1, 0) == (1, 50 * 2)
    assert numbers_a_round("fedzo", 50, 12, 1, 800) == numbers_a_round("fedit", 50, 12, 0, 800) == (800, 40000)
