"""Schedules of the learning rate."""

from __future__ import annotations

import math

import pytest

from zorba_core.engine.schedule import lr_of_round
from zorba_core.engine.settings import Settings


def test_schedules_rise_over_the_warmup_and_fall_to_nothing_after_the_last_round():
    settings = Settings(lr=1.0, rounds=12, warmup=2)
    rates = {
        name: [lr_of_round(settings.replace(schedule=name), t) for t in range(1, 14)]
        for name in ("constant", "cosine", "linear")
    }
    for values in rates.values():
        assert values[:3] == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert rates["constant"][2:] == [1.0] * 11
    assert rates["linear"][2:] == pytest.approx([1 - k / 10 for k in range(11)])
    assert rates["cosine"][2:] == pytest.approx([0.5 * (1 + math.cos(math.pi * k / 10)) for k in range(11)], abs=1e-12)
