"""What the Toy page says about the paper's claims, against counts made another way."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from zorba_core.allocation import Problem, solve
from zorba_core.study.toy.matrices import canonical_form
from zorba_core.study.toy.observations import (
    UNEVEN,
    accepted_by_theorem_3,
    counter_example,
    exact_lambda,
    exact_v,
    facts,
    lettered_classes,
    majorises,
    single_steps,
    uneven_pairs,
    uneven_pairs_by_variance,
    weakly_better,
)

FACTS = {fact.key: fact for fact in facts()}
CLASSES = lettered_classes()


def value(letter):
    return exact_lambda(CLASSES[letter].representative)


def total(letter):
    return CLASSES[letter].total_blocks


def test_fractions_are_what_the_floats_round():
    for found in CLASSES.values():
        assert float(exact_lambda(found.representative)) == pytest.approx(found.bias_lambda)
        assert float(exact_v(found.representative)) == pytest.approx(found.representative.mean_inverse_popularity)


def test_a_class_is_found_again_under_any_order_of_blocks_and_clients():
    forms = {canonical_form(found.representative.A_MN) for found in CLASSES.values()}
    assert len(forms) == 17
    for rows, columns in itertools.product(itertools.permutations(range(3)), repeat=2):
        for found in CLASSES.values():
            shuffled = found.representative.A_MN[list(rows)][:, list(columns)]
            assert canonical_form(shuffled) == canonical_form(found.representative.A_MN)


def test_one_more_block_lowers_lambda_738_times_of_936_and_raises_it_36_times():
    signs = [sign for _, _, sign in single_steps()]
    assert [signs.count(sign) for sign in (-1, 0, 1)] == [738, 162, 36]
    assert all(total(after) == total(before) + 1 for before, after, _ in single_steps())


def test_every_claim_gets_the_verdict_of_the_enumeration():
    assert {key: fact.verdict for key, fact in FACTS.items()} == {
        "observation-1": "holds",
        "observation-2": "holds",
        "observation-3": "holds",
        "observation-4": "holds, as an example",
        "lemma-5": "true, but short",
        "theorem-3": "contradicted",
    }


def test_observation_3_pairs_have_one_block_more_and_a_higher_lambda():
    pairs = FACTS["observation-3"].pairs
    assert len(pairs) == 5
    assert all(total(more) == total(fewer) + 1 and value(more) > value(fewer) for fewer, more in pairs)
    assert ("d", "k") in pairs


def test_observation_4_is_right_as_often_as_it_is_wrong():
    lower, higher = uneven_pairs()
    assert len(lower) == len(higher) == 6
    assert all(total(a) == total(b) and value(a) < value(b) for a, b in lower + higher)


def test_the_toy_page_and_the_ledger_count_the_same_pairs_for_observation_4():
    from zorba_core.study.ledger import toy_rows

    lower, higher = uneven_pairs()
    note = next(claim.note for claim in toy_rows.rows() if claim.id == "observation-4")
    assert f"in {len(lower)} pairs of classes the more imbalanced one has the lower Lambda, in {len(higher)}" in note
    finding = FACTS["observation-4"].finding
    assert f"In {len(lower)} pairs" in finding
    assert UNEVEN in finding
    assert UNEVEN in note


def test_by_the_variance_of_popularities_observation_4_is_right_in_3_pairs_and_wrong_in_9():
    assert [len(pairs) for pairs in uneven_pairs_by_variance()] == [3, 9]


def test_lemma_5_orders_3_of_36_pairs_and_the_weaker_condition_35():
    assert "3 of the 36" in FACTS["lemma-5"].finding
    assert "orders 35" in FACTS["lemma-5"].finding
    assert majorises((3, 1, 1), (2, 2, 1))
    assert not majorises((2, 2, 1), (3, 1, 1))
    assert not majorises((3, 3, 3), (1, 1, 1))
    assert weakly_better((3, 3, 3), (1, 1, 1))


def test_theorem_3s_rule_accepts_four_classes_at_five_blocks_of_which_one_is_best():
    assert FACTS["theorem-3"].shows == ("d", "e", "f", "g")
    assert min("defgh", key=value) == "d"
    assert accepted_by_theorem_3([(3, 2, 1), (2, 2, 2), (4, 2, 2)]) == [(4, 2, 2)]


def test_the_counter_example_is_what_the_solvers_give():
    flat, hub = counter_example()
    problem = Problem([3, 2, 1, 1, 1, 1], 3)
    assert (flat.blocks_held_N <= problem.budget_N).all()
    assert (hub.blocks_held_N <= problem.budget_N).all()
    assert solve(problem, "lexicographic").allocation.bias_lambda == pytest.approx(float(exact_lambda(flat)))
    proven = solve(problem, "exact")
    assert proven.optimal
    assert proven.allocation.bias_lambda == pytest.approx(float(exact_lambda(hub)))
    assert (exact_lambda(flat), exact_lambda(hub)) == (Fraction(2, 3), Fraction(33, 50))


def test_every_fact_points_at_known_classes():
    for fact in FACTS.values():
        named = set(fact.shows) | set(np.ravel(fact.pairs).tolist())
        assert named <= set(CLASSES)
        assert fact.finding.endswith(".")
