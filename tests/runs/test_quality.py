"""Numbers of predictions, held against hand-made cases and other libraries' definitions."""

from __future__ import annotations

import numpy as np
import pytest

from zorba_core.runs.quality import (
    Quality,
    by_client,
    change_p_value,
    exact_match,
    normalised,
    rouge_l,
    text_metrics,
    token_f1,
)

LABEL_R = np.array([0, 0, 0, 1, 1, 2])
PROBABILITY_RC = np.array(
    [[0.9, 0.1, 0.0], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.1, 0.85, 0.05], [0.55, 0.35, 0.1], [0.4, 0.35, 0.25]]
)


@pytest.fixture
def quality() -> Quality:
    return Quality(("a", "b", "c"), LABEL_R, PROBABILITY_RC)


def test_labels_are_counted_by_what_they_are_and_what_was_predicted(quality):
    assert quality.confusion_CC.tolist() == [[2, 1, 0], [1, 1, 0], [1, 0, 0]]
    assert quality.accuracy == 3 / 6
    assert quality.per_label["a"] == {
        "rows": 3, "predicted": 4, "accuracy": 2 / 3, "precision": 2 / 4, "recall": 2 / 3, "f1": pytest.approx(4 / 7)
    }  # fmt: skip
    assert quality.per_label["c"]["precision"] is None  # never predicted
    assert quality.macro_f1 == pytest.approx((4 / 7 + 1 / 2 + 0) / 3)
    assert quality.loss == pytest.approx(-np.log([0.9, 0.6, 0.2, 0.85, 0.35, 0.25]).mean())


def test_a_label_that_neither_occurs_nor_is_predicted_has_no_part_in_the_mean():
    quality = Quality(("a", "b", "never"), np.array([0, 1]), np.array([[0.8, 0.2, 0.0], [0.3, 0.7, 0.0]]))
    assert quality.macro_f1 == 1
    assert quality.per_label["never"]["f1"] is None


def test_clients_come_the_worst_served_first(quality):
    listed = by_client(["x", "x", "y", "y", "z", "z"], quality, quality)
    assert [(entry["client"], entry["rows"], entry["accuracy"]) for entry in listed] == [
        ("z", 2, 0.0),
        ("y", 2, 0.5),
        ("x", 2, 1.0),
    ]
    assert all(entry["base_accuracy"] == entry["accuracy"] for entry in listed)


def test_changes_that_go_both_ways_alike_are_no_evidence():
    assert change_p_value(0, 0) == 1
    assert change_p_value(5, 5) == 1
    assert change_p_value(10, 0) == pytest.approx(2 / 2**10)


def test_rouge_l_has_the_values_of_the_package_rouge_score():
    for written, answer, value in [
        ("the cat sat on the mat", "a cat lay on the mat", 2 / 3),
        ("Police killed the gunman", "the gunman police killed", 0.5),
        ("it's 3.5 dogs", "its 3 5 dogs!", 2 / 3),
        ("", "a mat", 0.0),
        ("on top", "on-top", 1.0),
    ]:
        assert rouge_l(written, answer) == pytest.approx(value, abs=1e-12)  # rougeL fmeasure of rouge-score 0.1.2


def test_exact_match_and_token_f1_look_past_case_articles_and_punctuation():
    assert normalised("The  Cat, a hat.") == "cat hat"
    assert exact_match("The cat!", "cat") == 1
    assert exact_match("cat", "dog") == 0
    assert exact_match("A", "B") == 0  # answers that are nothing but an article stay themselves
    assert token_f1("red small cat", "the cat is red") == pytest.approx(2 * 2 / (3 + 3))
    assert token_f1("cat cat", "cat") == pytest.approx(2 / 3)
    assert rouge_l("слон и кот", "слон кот") == pytest.approx(0.8)


def test_metrics_come_row_by_row():
    of_rows = text_metrics(["good", "so bad"], ["good", "bad"])
    assert {name: values.tolist() for name, values in of_rows.items()} == {
        "exact_match": [1, 0],
        "token_f1": [1, pytest.approx(2 / 3)],
        "rouge_l": [1, pytest.approx(2 / 3)],
    }


def test_ratios_are_their_definitions_on_200_random_cases():
    draw = np.random.default_rng(0)
    for _ in range(200):
        labels, rows = int(draw.integers(2, 9)), int(draw.integers(1, 60))
        names, label_R = tuple("abcdefgh"[:labels]), draw.integers(0, labels, rows)
        quality = Quality(names, label_R, draw.dirichlet(np.ones(labels), rows))
        for label, name in enumerate(names):
            is_R, said_R = label_R == label, quality.predicted_R == label
            right, entry = int((is_R & said_R).sum()), quality.per_label[name]
            assert (entry["rows"], entry["predicted"]) == (is_R.sum(), said_R.sum())
            assert entry["recall"] == (right / is_R.sum() if is_R.any() else None)
            assert entry["precision"] == (right / said_R.sum() if said_R.any() else None)
            total = is_R.sum() + said_R.sum()
            assert entry["f1"] == (pytest.approx(2 * right / total, rel=1e-15) if total else None)
