"""The built-in grammar."""

import pandas as pd

from zorba_core.data.load import load
from zorba_core.data.task import TASKS
from zorba_core.data.toy_reviews import _BAD, _GOOD, _NEGATIONS, toy_reviews, toy_verdicts

SPLITS = ("base", "federated", "validation")


def test_the_splits_are_distinct_balanced_and_share_no_sentence():
    frames = {split: toy_reviews(split) for split in SPLITS}
    texts = pd.concat(frames.values())["text"]
    assert [len(frame) for frame in frames.values()] == [3000, 3000, 1000]
    assert texts.is_unique
    assert all(frame["label"].mean() == 0.5 for frame in frames.values())


def test_counting_good_and_bad_words_does_not_solve_it():
    frame = toy_reviews("validation")
    words = frame["text"].str.split()
    score = words.map(lambda row: sum(word in _GOOD for word in row) - sum(word in _BAD for word in row))
    assert ((score > 0) == frame["label"]).mean() < 0.75


def test_the_clause_after_but_decides():
    for text, label in toy_reviews("validation").itertuples(index=False):
        if " but " not in text:
            continue
        verdict = text.split(" but ")[1].split()
        negated = any(negation.strip() in " ".join(verdict) for negation in _NEGATIONS)
        assert label == (any(word in _GOOD for word in verdict) != negated)


def test_loading_needs_no_data_and_hands_out_copies(monkeypatch):
    monkeypatch.delenv("ZORBA_DATA", raising=False)
    assert TASKS["toy-reviews"].rows.splits == SPLITS
    frame = load("toy-reviews", "federated")
    frame["label"] = 7
    again = load("toy-reviews", "federated")
    assert set(again["label"]) == {0, 1}
    assert again.attrs["source"].startswith("grammar")


def test_texts_are_the_same_on_every_call():
    for split in SPLITS:
        pd.testing.assert_frame_equal(toy_reviews(split), toy_reviews(split))


def test_a_verdict_says_the_label_of_its_remark():
    remarks, verdicts = toy_reviews("validation"), toy_verdicts("validation")
    assert verdicts["text"].equals(remarks["text"])
    assert [f"it was {'good' if label else 'bad'}" for label in remarks["label"]] == verdicts["answer"].tolist()
