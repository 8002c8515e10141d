"""What a model makes of a task's rows, what simple classifiers get of them, and what to change."""

from __future__ import annotations

import pandas as pd
from transformers import PreTrainedTokenizerFast

from zorba_core.data.describe import describe_task
from zorba_core.data.encode import encode
from zorba_core.data.infer import task_for
from zorba_core.data.load import load
from zorba_core.data.task import Overrides, get_task

LONG = [{"text": f"remark {n} " * 60, "label": "good" if n % 2 else "bad"} for n in range(40)]
SHORT = [{"text": f"remark {n}", "label": "good" if n % 2 else "bad"} for n in range(400)]


def test_columns_labels_prompt_and_lengths_are_those_of_the_rows(tiny_tokenizer):
    rows = [("the food was lovely " * (1 + n % 9), "good", "a") for n in range(60)] + [("dull", "dreadful", "b")] * 4
    overrides = Overrides(
        test=pd.DataFrame({"text": ["dull", "fine"], "label": ["dreadful", "good"], "by": "c"}), client="by"
    )
    facts = describe_task(task_for(pd.DataFrame(rows, columns=["text", "label", "by"]), overrides), tiny_tokenizer, 16)
    assert facts["columns"] == {"text": ["text"], "label": "label", "answer": None, "client": "by"}
    assert facts["clients"] == {"a": 60, "b": 4}
    assert facts["prompt"] == "{text} Label:"
    assert (facts["example"]["place"], facts["example"]["answer"]) == ("row 1", " good")
    assert facts["example"]["prompt"].endswith("lovely Label:")
    assert "Ġwas" in facts["example"]["tokens"]
    assert [(label["name"], label["train"], label["test"]) for label in facts["labels"]] == [
        ("dreadful", 4, 1), ("good", 60, 1)
    ]  # fmt: skip
    assert facts["lengths"]["median"] < facts["lengths"]["longest"]
    assert facts["lengths"]["prompts_cut"] > 0


def test_a_majority_vote_and_naive_bayes_are_measured_on_the_same_test_rows(tiny_tokenizer):
    facts = describe_task(get_task("toy-reviews"), tiny_tokenizer, 64)
    assert facts["baselines"]["majority"] == 0.5
    assert (
        0.6 < facts["baselines"]["naive_bayes"] < 0.95
    )  # words alone do not tell what "not" and "although" turn round
    assert describe_task(get_task("toy-verdicts"), tiny_tokenizer, 64)["baselines"] == {}


def test_what_can_be_better_is_a_sentence_with_its_remedy(tiny_tokenizer):
    for rows, overrides, advice in [
        (LONG, {}, "lose the end of their text: --seq-len"),
        (LONG + SHORT, {"label_words": ("bad food", "good")}, "the tokenizer splits 1 label words (bad food)"),
        ([*SHORT, {"text": "one", "label": "rare"}], {}, "no test row has the label rare"),
        (SHORT, {}, "with their answers: --seq-len 24 is faster"),  # fits the longest prompt to choose from
        (
            [row | {"output": row["text"]} for row in SHORT],
            {"prompt": "{text} {output} Write:", "answer": "output"},
            "contains output, the column of the answer",
        ),
        ([*SHORT, {"text": "remark 1", "label": "bad"}], {}, "1 texts have two labels"),
        (SHORT, {"test": pd.DataFrame(SHORT[:3])}, "3 test rows are training rows too"),
    ]:
        sentences = describe_task(task_for(pd.DataFrame(rows), Overrides(**overrides)), tiny_tokenizer, 64)["advice"]
        assert any(advice in sentence for sentence in sentences), sentences


def test_the_advised_length_has_room_for_written_answers(tiny_tokenizer):
    rows = pd.DataFrame([{"question": f"remark {n}", "answer": "the food was lovely " * 12} for n in range(40)])
    lengths = describe_task(task_for(rows), tiny_tokenizer, 128)["lengths"]
    assert lengths["enough"] > 48 > lengths["longest"]
    assert describe_task(task_for(rows), tiny_tokenizer, lengths["enough"])["lengths"]["answers_cut"] == 0


def test_a_tokenizer_without_padding_and_start_token_encodes(tiny_tokenizer):
    bare = PreTrainedTokenizerFast(tokenizer_object=tiny_tokenizer.backend_tokenizer, eos_token="</s>")
    task = task_for(pd.DataFrame(SHORT))
    assert len(encode(task, load(task), bare, 32)) > 200
