"""Schedules of the learning rate."""

from __future__ import annotations

import math

import pytest

from zorba_core.engine.schedule import back_off, lr_of_round
from zorba_core.engine.settings import Settings


def test_schedules_fall_to_nothing_after_the_last_round():
    settings = Settings(lr=1.0, rounds=10)
    rates = {
        name: [lr_of_round(settings.replace(schedule=name), t) for t in range(1, 12)] for name in ("constant", "cosine")
    }
    assert rates["constant"] == [1.0] * 11
    assert rates["cosine"] == pytest.approx([0.5 * (1 + math.cos(math.pi * k / 10)) for k in range(11)], abs=1e-12)


def test_the_rate_halves_for_each_two_rises_of_the_evaluation_loss(subtests):
    for losses, factor in [
        ([], 1.0),
        ([1.0, 1.1, 1.0, 1.1], 1.0),  # single rises
        ([1.0, 1.1, 1.2], 0.5),
        ([1.0, 1.1, 1.2, 1.3], 0.5),
        ([1.0, 1.1, 1.2, 1.3, 1.4], 0.25),
        ([2.0, 1.0, 1.1, 1.2, 0.9, 1.0, 1.1, 0.5], 0.25),
        ([1.0, 1.0, 1.0], 1.0),
    ]:
        with subtests.test(losses=losses, factor=factor):
            assert back_off(losses) == factor
