"""How close a written text comes to the answer."""

from __future__ import annotations

import pytest

from zorba_core.runs.quality import exact_match, normalised, rouge_l, text_metrics, token_f1


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
