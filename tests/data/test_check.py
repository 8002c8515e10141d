"""What a model makes of a task's rows, and what to change."""

from __future__ import annotations

import pandas as pd
import pytest
from transformers import PreTrainedTokenizerFast

from zorba_core.data.check import check_task
from zorba_core.data.describe import Said
from zorba_core.data.encode import encode
from zorba_core.data.load import load_split
from zorba_core.data.own_task import task_for


def test_check_shows_prompts_and_counts_labels_and_copies(tiny_tokenizer):
    rows = [("the food was lovely " * (1 + n % 9), "good") for n in range(60)] + [("dull", "dreadful")] * 4
    test = pd.DataFrame({"text": ["dull"], "label": ["dreadful"]})
    report = check_task(task_for(pd.DataFrame(rows, columns=["text", "label"]), Said(test=test)), tiny_tokenizer, 16)
    assert len(report["prompts"]) == 3
    assert report["prompts"][1]["prompt"].endswith("dull Label:")
    assert report["prompts"][1]["answer"] == " dreadful"
    assert "Ġwas" in report["prompts"][0]["tokens"] + report["prompts"][2]["tokens"]
    assert [(label["name"], label["train"], label["test"]) for label in report["labels"]] == [
        ("dreadful", 4, 1), ("good", 60, 0)
    ]  # fmt: skip
    assert report["duplicates"]["across_the_split"] == 1


LONG = [{"text": f"remark {n} " * 60, "label": "good" if n % 2 else "bad"} for n in range(40)]
SHORT = [{"text": f"remark {n}", "label": "good" if n % 2 else "bad"} for n in range(400)]


@pytest.mark.parametrize(
    ("rows", "said", "advice"),
    [
        (LONG, {}, ["lose the end of their text: --seq-len"]),
        (LONG + SHORT, {"label_words": ("bad food", "good")}, ["the tokenizer splits 1 label words (bad food)"]),
        ([*SHORT, {"text": "one", "label": "rare"}], {}, ["no test row has the label rare"]),
        (SHORT, {}, ["tokens: --seq-len 16 is faster"]),
        ([row | {"output": row["text"]} for row in SHORT],
         {"prompt": "{text} {output} Write:", "answer": "output"}, ["contains output, the column of the answer"]),
        ([*SHORT, {"text": "remark 1", "label": "bad"}], {}, ["1 texts have two labels"]),
    ],
)  # fmt: skip
def test_what_can_be_better_is_a_sentence_with_its_remedy(rows, said, advice, tiny_tokenizer):
    report = check_task(task_for(pd.DataFrame(rows), Said(**said)), tiny_tokenizer, 64)
    told = " ".join(report["recommendations"])
    assert all(sentence in told for sentence in advice), told


def test_texts_beyond_what_a_model_reads_are_to_be_shorter(tiny_tokenizer):
    report = check_task(task_for(pd.DataFrame(LONG)), tiny_tokenizer, 64, max_positions=64)
    assert any("shorter texts, the model has no more positions" in line for line in report["recommendations"])


def test_a_tokenizer_without_padding_and_start_token_encodes(tiny_tokenizer):
    bare = PreTrainedTokenizerFast(tokenizer_object=tiny_tokenizer.backend_tokenizer, eos_token="</s>")
    task = task_for(pd.DataFrame(SHORT))
    assert len(encode(task, load_split(task), bare, 32)) > 200
