"""SC1, SC2 and SC3: alike needs a margin, slower is contradicted where a slowdown worth the name is excluded."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tests.study.ledger.test_training_rows import claim_of, results
from zorba_core.study.experiments import read_results
from zorba_core.study.experiments.equivalence import MARGIN_NATS
from zorba_core.study.ledger import convergence_rows


@pytest.fixture(scope="module")
def cases(root):
    return read_results("cases", "standard", root / "artifacts" / "experiments")


def differences(cases, first: str, second: str) -> np.ndarray:
    by_seed = cases.runs.pivot(index="seed", columns="arm", values="late_loss")
    return (by_seed[first] - by_seed[second]).to_numpy()


def test_stored_sc1_and_sc2_are_not_shown_to_be_alike(cases):
    found = claim_of(convergence_rows._cases(cases), "fig-4b/sc1-sc2")
    values = differences(cases, "SC1", "SC2")
    half = stats.t.ppf(0.95, len(values) - 1) * stats.sem(values)
    assert values.mean() + half > MARGIN_NATS
    assert found.verdict == "undecided"
    assert f"{values.mean() - half:+.4f} to {values.mean() + half:+.4f}" in found.ours
    assert f"margin {MARGIN_NATS:g}" in found.ours


def test_stored_sc3_is_ahead_of_sc2_in_every_seed_and_a_slowdown_is_excluded(cases):
    found = claim_of(convergence_rows._cases(cases), "fig-4b/sc3")
    values = differences(cases, "SC3", "SC2")
    high = values.mean() + stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    assert (values < 0).all()
    assert len(values) == 5
    assert high < 0.001
    assert found.verdict == "contradicted"
    assert "a slowdown above 0.001 nats is excluded" in found.counter_example
    assert "lower loss in 5 of 5 seeds" in found.counter_example


def test_an_interval_around_zero_no_longer_counts_as_alike():
    wide = {"SC1": [0.55, 0.49, 0.53], "SC2": [0.52, 0.52, 0.52], "SC3": [0.60, 0.61, 0.60]}
    found = convergence_rows._cases(results("cases", wide))
    assert claim_of(found, "fig-4b/sc1-sc2").verdict == "undecided"
    assert claim_of(found, "fig-4b/sc3").verdict == "reproduced in shape"


def test_small_differences_are_alike_and_a_slowdown_within_the_noise_is_undecided():
    arms = {"SC1": [0.521, 0.522, 0.521], "SC2": [0.52, 0.52, 0.52], "SC3": [0.56, 0.51, 0.52]}
    found = convergence_rows._cases(results("cases", arms))
    assert claim_of(found, "fig-4b/sc1-sc2").verdict == "reproduced in shape"
    assert claim_of(found, "fig-4b/sc3").verdict == "undecided"


def test_two_seeds_decide_nothing():
    found = convergence_rows._cases(results("cases", {"SC1": [0.5, 0.5], "SC2": [0.5, 0.5], "SC3": [0.4, 0.4]}))
    assert {claim.verdict for claim in found} == {"cannot be tested here"}
