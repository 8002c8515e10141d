from __future__ import annotations

import math

import numpy as np
import pytest

from zorba_core.engine.round import client_rows
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError


def test_a_wrong_setting_is_named_with_its_value(subtests):
    for fields, words in [
        ({"lr": math.nan}, "lr is nan; it must be a finite number"),
        ({"directions": 11, "num_seeds": 10}, "more seeds or fewer directions"),
        ({"direction": "cauchy"}, "direction is 'cauchy'; choose one of gaussian"),
        ({"inactive": "skipped"}, "choose frozen or dropped"),
        ({"participation": 1.1}, "participation is 1.1"),
        ({"estimator": "magic"}, "estimator is 'magic'; choose one of cohort"),
        ({"device": "tpu"}, "choose cpu or cuda"),
    ]:
        with subtests.test(fields=fields, words=words):
            with pytest.raises(InvalidInputError, match=words) as caught:
                Settings(**fields)
            assert "\n" not in str(caught.value)


def test_a_large_model_gets_the_settings_that_suit_it(monkeypatch):
    monkeypatch.setattr("zorba_core.engine.settings._has_bfloat16", lambda: True)
    names = ("rounds", "schedule", "direction", "directions", "precision")

    def suited(num_parameters: int = 135_000_000, **given) -> tuple:
        settings = Settings.suited(num_parameters, **given)
        return tuple(getattr(settings, name) for name in names)

    assert suited() == (20, "cosine", "low-rank", 800, "bf16")
    assert suited(directions=7, rounds=9) == (9, "cosine", "low-rank", 7, "bf16")
    assert suited(estimator="cohort") == (40, "cosine", "low-rank", 10, "highest")  # finite differences
    assert Settings.suited(2_000_000) == Settings(lr="auto")


def test_a_batch_is_of_the_clients_own_rows_without_repeats():
    held = np.array([3, 8, 9, 21, 40])
    chosen = client_rows(held, run_seed=0, round_index=1, client=2, batch_size=4)
    assert len(set(chosen.tolist())) == 4
    assert set(chosen.tolist()) <= set(held.tolist())


def test_a_client_with_fewer_rows_than_a_batch_repeats_them():
    assert set(client_rows(np.array([7, 9]), 0, 1, 2, batch_size=30).tolist()) == {7, 9}


def test_batches_differ_between_rounds_clients_and_run_seeds_and_can_be_drawn_alone():
    held = np.arange(1000)
    keys = [(0, 1, 2), (0, 2, 1), (1, 1, 2), (0, 1, 3), (0, 12, 0)]
    drawn = [tuple(client_rows(held, *key, batch_size=8)) for key in keys]
    assert len(set(drawn)) == len(keys)
    assert drawn[2] == tuple(client_rows(held, *keys[2], batch_size=8))
