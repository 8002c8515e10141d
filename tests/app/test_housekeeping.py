from __future__ import annotations

import gc

from app.shared.housekeeping import settle


def test_what_has_come_to_stay_is_frozen_once_a_page_and_garbage_is_not():
    class Node:
        pass

    node = Node()
    node.itself = node
    kept = Node()
    try:
        settle("a page of this test")
        frozen = gc.get_freeze_count()
        assert frozen > 0
        assert all(held is not kept for held in gc.get_objects())
        later = Node()
        settle("a page of this test")
        assert gc.get_freeze_count() <= frozen
        assert any(held is later for held in gc.get_objects())
    finally:
        gc.unfreeze()
