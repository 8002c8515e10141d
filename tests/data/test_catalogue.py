"""The catalogue's files: each task is trained on from rows in its published columns."""

from __future__ import annotations

import pandas as pd
import pytest

from zorba_core.data.catalogue import toy_reviews
from zorba_core.data.encoding import encode
from zorba_core.data.splits import load_split
from zorba_core.data.tasks import TASKS, get_task
from zorba_core.errors import InvalidInputError

# A row as it is published, without its label; what stands for each label; which split is evaluated on.
TEXT = "a quiet film about a garden"
PUBLISHED = {
    "rte": ({"sentence1": TEXT, "sentence2": "it is quiet", "idx": 0}, [0, 1], "label"),
    "boolq": ({"passage": TEXT, "question": "is it quiet"}, [False, True], "answer"),
    "cb": ({"premise": TEXT, "hypothesis": "it is quiet", "idx": 0}, [0, 1, 2], "label"),
    "wic": ({"word": "film", "sentence1": TEXT, "sentence2": "a thin film", "start1": 8}, [0, 1], "label"),
    "wsc": ({"text": TEXT, "span1_text": "film", "span2_text": "it", "span1_index": 2}, [0, 1], "label"),
    "multirc": (
        {"paragraph": TEXT, "question": "what is it", "answer": "a film", "idx": {"answer": 0}},
        [0, 1],
        "label",
    ),
    "qqp": ({"question1": "is it quiet", "question2": "what is it", "idx": 1}, [0, 1], "label"),
    "trec": ({"text": "who made it ?", "fine_label": 3}, [0, 1, 2, 3, 4, 5], "coarse_label"),
    "banking77": ({"text": "my card is lost"}, list(range(77)), "label"),
    "copa": ({"premise": TEXT, "choice1": "it rained", "choice2": "they left", "question": "effect"}, [0, 1], "label"),
}
WRITTEN = {
    "squad": (
        {"context": TEXT, "question": "what is it", "answers": {"text": ["a film", "film"], "answer_start": [0]}}
    ),
    "drop": ({"passage": TEXT, "question": "how many", "answers_spans": {"spans": ["2"], "types": ["number"]}}),
    "xsum": ({"document": TEXT, "summary": "a film", "id": "1"}),
    "gsm8k": ({"question": "one and one ?", "answer": "one and one are 2 #### 2"}),
    "alpaca": ({"instruction": "name a film", "input": "", "output": "a quiet one", "text": "whole"}),
    "dolly": ({"instruction": "name a film", "context": "", "response": "a quiet one", "category": "open_qa"}),
}


def published(name: str, count: int) -> pd.DataFrame:
    if name in WRITTEN:
        frame = pd.DataFrame([WRITTEN[name]] * count)
    else:
        row, values, label = PUBLISHED[name]
        frame = pd.DataFrame([{**row, label: values[index % len(values)]} for index in range(count)])
    first = get_task(name).text_columns[0]
    frame[first] = [f"{text} {index}" for index, text in enumerate(frame[first])]
    return frame


@pytest.mark.parametrize("name", [*PUBLISHED, *WRITTEN])
def test_rows_in_the_published_columns_become_prompts_and_answers(name, tmp_path, monkeypatch, tiny_tokenizer):
    monkeypatch.setenv("ZORBA_DATA", str(tmp_path))
    task, count = get_task(name), 160
    (tmp_path / task.rows.folder).mkdir()
    for split in ("train", *task.rows.evaluation_splits):
        published(name, count).to_parquet(tmp_path / task.rows.folder / f"{split}.parquet")
    train, test = load_split(name, "federated"), load_split(name, task.rows.evaluation_split)
    if task.rows.held_out:
        assert len(train) + len(test) == count
        assert not set(train[task.text_columns[0]]) & set(test[task.text_columns[0]])
    else:
        assert len(train) == count  # clients hold every row
    assert train.attrs["note"].startswith(f"subset of train: {count} of the official")
    if name in PUBLISHED:
        assert sorted(set(train["label"])) == list(range(task.num_classes))
    else:
        expected = {"squad": "a film", "drop": "2"}.get(name)
        assert expected is None or set(train[task.answer]) == {expected}
    rows = encode(task, train.head(5), tiny_tokenizer, 256)
    assert len(rows.weights) >= 5


def test_instructions_are_a_users_turn_where_the_tokenizer_has_a_chat_template(tiny_tokenizer):
    from copy import deepcopy

    task, frame = get_task("alpaca"), pd.DataFrame([WRITTEN["alpaca"]])
    plain = encode(task, frame, tiny_tokenizer, 128)
    chatty = deepcopy(tiny_tokenizer)
    chatty.chat_template = (
        "{% for m in messages %}<u>{{ m['content'] }}</u>{% endfor %}{% if add_generation_prompt %}<a>\n{% endif %}"
    )
    rows = encode(task, frame, chatty, 128)
    length = int(rows.trimmed().token_ids_RL.shape[1])
    text = chatty.decode(rows.token_ids_RL[0, :length])
    assert text.startswith("<u>Instruction: name a film")
    assert "Response:</u><a>\na quiet one" in text
    assert "<u>" not in tiny_tokenizer.decode(plain.token_ids_RL[0])
    chatty.chat_template = "{{ raise_exception('no user') }}"
    with pytest.raises(InvalidInputError, match=r"chat template cannot be used \(no user\); set chat = false"):
        encode(task, frame, chatty, 128)


def test_every_task_of_the_catalogue_but_those_with_real_rows_is_tested_on_made_ones():
    assert {*PUBLISHED, *WRITTEN} | {"sst2", "ag-news", "snli"} == {
        name for name, task in TASKS.items() if hasattr(task.rows, "hub")
    }


def test_only_the_three_sets_of_the_base_model_have_a_half_that_clients_do_not_hold():
    assert [name for name, task in TASKS.items() if "base" in task.rows.splits] == [
        "sst2", "ag-news", "snli", "toy-reviews"
    ]  # fmt: skip


def test_the_grammars_version_is_its_origin():
    assert get_task("toy-reviews").rows.origin == f"grammar {toy_reviews.GRAMMAR_VERSION}"


def test_a_published_label_that_the_task_does_not_know_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("ZORBA_DATA", str(tmp_path))
    (tmp_path / "boolq").mkdir()
    published("boolq", 4).assign(answer="perhaps").to_parquet(tmp_path / "boolq" / "train.parquet")
    with pytest.raises(InvalidInputError, match=r"labels must be 0\.\.1, found -1"):
        load_split("boolq", "federated")
