"""A task's rows as tokens: the prompt around the texts, cut to fit, and the answers that may follow it.

Shapes: R rows, L token positions (``seq_len``), C classes, T tokens of an answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch

from zorba_core.data.prompts import Prompts, answer_space, chat_turn, fill, piece_ids
from zorba_core.data.task import Task
from zorba_core.engine.rows import Rows
from zorba_core.errors import InvalidInputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def with_label_words(task: Task, words: Sequence[str] | None) -> Task:
    """The task with these label words; the task itself where there are none, or they are its own.

    Raises:
        InvalidInputError: the number of words is not C, or two are the same.
    """
    if words is None or tuple(words) == task.label_words:
        return task
    if task.kind != "labels":
        raise InvalidInputError(f"task {task.name} is of kind {task.kind} and has no label words; leave them out")
    if not all(word.strip() for word in words):
        raise InvalidInputError(f"task {task.name}: a label word is empty, in {list(words)}; leave no comma too many")
    if len(words) != task.num_classes or len(set(words)) != len(words):
        raise InvalidInputError(f"task {task.name} needs {task.num_classes} different label words, got {list(words)}")
    return replace(task, label_words=tuple(words), prior=())


def label_tokens(task: Task, tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """Tokens of each class's answer, each word taken with a space before it.

    Raises:
        InvalidInputError: the tokenizer cannot write a word, or one begins another (it would always score higher).
    """
    space = answer_space(task.prompt)
    tokens = piece_ids(tokenizer, [space + word for word in task.label_words])
    for word, pieces in zip(task.label_words, tokens, strict=True):
        if not pieces or tokenizer.unk_token_id in pieces:
            raise InvalidInputError(
                f"task {task.name}: the tokenizer has no tokens for the label word {word!r}; choose another label word"
            )
    clash = _beginning(tokens)
    if clash is not None:
        short, long = (task.label_words[place] for place in clash)
        raise InvalidInputError(
            f"task {task.name}: to this tokenizer the label word {short!r} begins (or is) the label word {long!r}, "
            "which could then never be chosen; choose label words none of which begins another"
        )
    return tokens


def label_token_ids(
    task: Task, tokenizer: PreTrainedTokenizerBase, words: tuple[str, ...] | None = None
) -> torch.Tensor:
    """Token id of each class's answer where all are one token, int64 of shape (C,).

    Args:
        words: other answers than ``task.label_words``, one per class.

    Raises:
        InvalidInputError: the number of words is not C, two are the same, or the tokenizer splits one.
    """
    task = with_label_words(task, words)
    tokens = label_tokens(task, tokenizer)
    for word, pieces in zip(task.label_words, tokens, strict=True):
        if len(pieces) != 1:
            shown = [tokenizer.convert_ids_to_tokens(piece) for piece in pieces]
            raise InvalidInputError(
                f"task {task.name}: the tokenizer splits the label word {word!r} into {shown}; "
                "here a label word must be one token, choose other label words for this model"
            )
    return torch.tensor([pieces[0] for pieces in tokens], dtype=torch.int64)


def head_tokens(task: Task, tokenizer: PreTrainedTokenizerBase) -> torch.Tensor:
    """The only tokens that a model's head is asked for, (C,): the label words where each is one token; else none, and
    rows ask for tokens of the whole vocabulary.

    Raises:
        InvalidInputError: label words that cannot be told apart, as :func:`label_tokens` says.
    """
    tokens = label_tokens(task, tokenizer) if task.kind == "labels" else []
    if any(len(pieces) != 1 for pieces in tokens):
        tokens = []
    return torch.tensor([pieces[0] for pieces in tokens], dtype=torch.int64)


def encode(
    task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, seq_len: int, *, labelled: bool = True
) -> Rows:
    """Turn rows into prompts and answers of together at most ``seq_len`` tokens, padded on the right to ``seq_len``.

    A prompt that is too long loses the ends of its texts, the longest text first, never the prompt's own words. Label
    words and options are never cut. A written answer is: to what half of the room, or all that short texts leave, can
    hold; :func:`count_cuts` says how many are.

    Args:
        labelled: False where the rows have no ``label`` yet (they are to be predicted): label 0 is put in.

    Raises:
        InvalidInputError: columns are missing, an answer is empty, or ``seq_len`` cannot hold the prompt itself and
            the answer.
    """
    wanted = task.columns if labelled else [column for column in task.columns if column != "label"]
    _check_columns(task, frame, wanted)
    if len(frame) == 0:
        raise InvalidInputError(f"task {task.name}: there are no rows to encode")
    if task.kind == "text":
        return _encode_text(task, frame, tokenizer, seq_len)
    label_R = frame["label"].to_numpy(np.int64) if labelled else np.zeros(len(frame), np.int64)
    prompts = Prompts(task, frame, tokenizer)
    if task.kind == "options":
        answers = _option_tokens(task, frame, tokenizer)
    else:
        answers = [label_tokens(task, tokenizer)] * len(frame)
    reserve_R = [max(map(len, choices)) - 1 for choices in answers]  # the last token is only predicted
    for row, reserve in enumerate(reserve_R):
        if seq_len - reserve - prompts.fixed < prompts.num_texts:
            answer = f", the longest answer's {reserve + 1} (row {frame.index[row]})" if reserve else ""
            raise InvalidInputError(
                f"task {task.name}: seq_len {seq_len} cannot hold the prompt's own {prompts.fixed} tokens{answer} and "
                f"some text; use at least {prompts.fixed + reserve + prompts.num_texts}"
            )
    tokens = [prompts.tokens(row, seq_len - prompts.fixed - reserve) for row, reserve in enumerate(reserve_R)]
    if task.kind == "labels" and all(len(pieces) == 1 for pieces in answers[0]):
        answers = None  # the network's label words
    rows = Rows.of(tokens, answers, label_R, seq_len, _pad_id(tokenizer), mean=task.score == "mean")
    return replace(rows, prior_C=torch.tensor(task.prior, dtype=torch.float64))


def _check_columns(task: Task, frame: pd.DataFrame, wanted: Sequence[str]) -> None:
    missing = [column for column in wanted if column not in frame.columns]
    if missing:
        raise InvalidInputError(f"task {task.name}: the rows lack the column(s) {', '.join(missing)}")


def encode_prompts(
    task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, seq_len: int, *, max_new_tokens: int
) -> list[list[int]]:
    """The prompts alone, from rows that need no answer, cut so that ``max_new_tokens`` more fit into ``seq_len``.

    Raises:
        InvalidInputError: columns are missing, or ``seq_len`` cannot hold the prompt itself and what is to be written.
    """
    _check_columns(task, frame, task.text_columns)
    prompts = Prompts(task, frame, tokenizer)
    room = seq_len - prompts.fixed - max_new_tokens
    if room < prompts.num_texts:
        raise InvalidInputError(
            f"task {task.name}: seq_len {seq_len} cannot hold the prompt's own {prompts.fixed} tokens, some text and "
            f"{max_new_tokens} new tokens; use at least {prompts.fixed + max_new_tokens + prompts.num_texts}"
        )
    return [prompts.tokens(row, room) for row in range(len(frame))]


def count_cuts(task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, seq_len: int) -> dict[str, int]:
    """How many rows lose what to ``seq_len``: ends of their texts (``prompts_cut``), of their answers (``answers_cut``,
    and with it the token that ends it; kind text alone)."""
    prompts = Prompts(task, frame, tokenizer)
    length_R = [sum(map(len, prompts.texts(row))) for row in range(len(frame))]
    if task.kind != "text":
        answers = _option_tokens(task, frame, tokenizer) if task.kind == "options" else [label_tokens(task, tokenizer)]
        reserve_R = [max(map(len, answers[row % len(answers)])) - 1 for row in range(len(frame))]
        room = seq_len - prompts.fixed
        cut_R = [length > room - reserve for length, reserve in zip(length_R, reserve_R, strict=True)]
        return {"prompts_cut": sum(cut_R)}
    answer_R = [len(answer) for answer in _answer_tokens(task, frame, tokenizer)]
    kept_R = [_shares(prompts, length, answer, seq_len) for length, answer in zip(length_R, answer_R, strict=True)]
    return {
        "prompts_cut": sum(length > room for length, (room, _) in zip(length_R, kept_R, strict=True)),
        "answers_cut": sum(answer > kept for answer, (_, kept) in zip(answer_R, kept_R, strict=True)),
    }


def _encode_text(task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, seq_len: int) -> Rows:
    prompts, answers = Prompts(task, frame, tokenizer), _answer_tokens(task, frame, tokenizer)
    least = prompts.fixed + prompts.num_texts
    if seq_len < least + 1:
        raise InvalidInputError(
            f"task {task.name}: seq_len {seq_len} cannot hold the prompt's own {prompts.fixed} tokens, some text and "
            f"an answer; use at least {least + 1}"
        )
    tokens = []
    for row, answer in enumerate(answers):
        room, kept = _shares(prompts, sum(map(len, prompts.texts(row))), len(answer), seq_len)
        tokens.append(prompts.tokens(row, room))
        answers[row] = answer[:kept]
    right_R = np.zeros(len(answers), np.int64)
    return Rows.of(tokens, [[answer] for answer in answers], right_R, seq_len, _pad_id(tokenizer))


def _shares(prompts: Prompts, text: int, answer: int, seq_len: int) -> tuple[int, int]:
    """Tokens for the texts, and of the answer, in a row that has so many of each."""
    room = seq_len - prompts.fixed + 1  # the answer's last token is only predicted
    least = max(prompts.num_texts, 1) if text else 0
    kept = min(answer, max(room // 2, room - max(text, least)), room - least)
    return room - kept, kept


def _answer_tokens(task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """Tokens of each row's written answer, and the token that ends it."""
    end = tokenizer.eos_token_id
    if end is None:
        raise InvalidInputError(
            f"task {task.name}: the tokenizer has no token that ends a text (eos_token), so answers cannot be learned; "
            "set one in its tokenizer_config.json"
        )
    texts = fill(task.answer, frame)
    _refuse_empty(task, frame, texts, "answer")
    turn = chat_turn(task, tokenizer)
    space = answer_space(task.prompt if turn is None else turn[1])
    return [[*ids, end] for ids in piece_ids(tokenizer, [space + text for text in texts])]


def _option_tokens(task: Task, frame: pd.DataFrame, tokenizer: PreTrainedTokenizerBase) -> list[list[list[int]]]:
    """Tokens of each row's options. Where one begins another, all of that row also have the token that ends a text."""
    space, columns = answer_space(task.prompt), []
    for option in task.options:
        texts = fill(option, frame)
        _refuse_empty(task, frame, texts, f"option {option!r}")
        columns.append(piece_ids(tokenizer, [space + text for text in texts]))
    rows = [list(options) for options in zip(*columns, strict=True)]
    for row, options in enumerate(rows):
        if _beginning(options) is not None:
            if len({tuple(option) for option in options}) < len(options) or tokenizer.eos_token_id is None:
                raise InvalidInputError(
                    f"task {task.name}: row {frame.index[row]} has options that cannot be told apart; remove the row"
                )
            rows[row] = [[*option, tokenizer.eos_token_id] for option in options]
    return rows


def _refuse_empty(task: Task, frame: pd.DataFrame, texts: list[str], what: str) -> None:
    if "" in texts:
        raise InvalidInputError(
            f"task {task.name}: the {what} of row {frame.index[texts.index('')]} is empty; remove such rows"
        )


def _beginning(answers: Sequence[Sequence[int]]) -> tuple[int, int] | None:
    """Two answers the first of which begins the second, or is the same."""
    order = sorted(range(len(answers)), key=lambda place: list(answers[place]))
    for first, second in itertools.pairwise(order):  # in this order such answers are neighbours
        if list(answers[second][: len(answers[first])]) == list(answers[first]):
            return first, second
    return None


def _pad_id(tokenizer: PreTrainedTokenizerBase) -> int:
    return tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id or 0
