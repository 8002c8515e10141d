"""What a fine-tuned model says of new texts, and what the base model said of them.

Shapes: R rows, C labels.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from transformers import GenerationConfig

from zorba_core.data.encode import count_cuts, encode, encode_prompts
from zorba_core.data.own_rows import Texts, text_rows
from zorba_core.data.task import TableRows
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.evaluation import BATCH_SIZE, label_log_probabilities
from zorba_core.engine.rows import Rows
from zorba_core.errors import InvalidInputError
from zorba_core.runs.folder import RunFolder, finished_folder
from zorba_core.runs.load import check_tokens
from zorba_core.runs.replay import RunModel, open_model

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


_CHUNK = 4096  # rows encoded together


@dataclass(frozen=True, eq=False)
class Answers(ABC):
    """Answers to R rows: :class:`Predictions` or :class:`WrittenAnswers`."""

    frame: pd.DataFrame  # the columns that were read
    cut_rows: int  # texts longer than seq_len, which lost their end
    seq_len: int

    @property
    @abstractmethod
    def columns(self) -> dict[str, list[Any]]:
        """``prediction`` and, of labels, ``probability``; the base model's with ``base_`` before."""

    def table(self) -> pd.DataFrame:
        """The texts with :attr:`columns` behind them."""
        return self.frame.assign(**self.columns)

    @property
    def note(self) -> str:
        """One line where texts were cut, else empty."""
        if not self.cut_rows:
            return ""
        count, rows = self.cut_rows, len(self.frame)
        which = "the text is" if rows == 1 else f"{count} of {rows} texts {'is' if count == 1 else 'are'}"
        return f"{which} longer than the run's seq_len of {self.seq_len} tokens; what is beyond it was not read"


@dataclass(frozen=True, eq=False)
class WrittenAnswers(Answers):
    """What the model writes, after fine-tuning and, where asked for, before."""

    after: tuple[str, ...]
    before: tuple[str, ...] | None

    @property
    def columns(self) -> dict[str, list[Any]]:
        base = {} if self.before is None else {"base_prediction": list(self.before)}
        return {"prediction": list(self.after), **base}


@dataclass(frozen=True, eq=False)
class Predictions(Answers):
    """Labels' probabilities of R rows, after fine-tuning and, where asked for, before."""

    labels: tuple[str, ...]
    probability_RC: np.ndarray
    base_RC: np.ndarray | None

    @property
    def columns(self) -> dict[str, list[Any]]:
        columns = {}
        for prefix, probability_RC in (("", self.probability_RC), ("base_", self.base_RC)):
            if probability_RC is not None:
                columns[f"{prefix}prediction"] = [self.labels[label] for label in probability_RC.argmax(axis=1)]
                columns[f"{prefix}probability"] = probability_RC.max(axis=1).tolist()
        return columns

    def probabilities(self, row: int, base: bool = False) -> dict[str, float]:
        """Each label's probability for one row, the likeliest first."""
        probability_C = (self.base_RC if base else self.probability_RC)[row]
        order_C = np.argsort(-probability_C, kind="stable")
        return {self.labels[label]: float(probability_C[label]) for label in order_C}


def predict(
    run: str | os.PathLike[str] | RunFolder | RunModel,
    texts: Texts | TableRows,
    *,
    base: bool = False,
    model: str | None = None,
) -> Predictions | WrittenAnswers:
    """The label of each text by the run's fine-tuned model, or what it writes.

    Args:
        texts: a text, or several; for a task of several text columns a mapping with each of them; or a table; or rows
            of a file.
        base: also by the base model.
        model: where the base model lies now, if it is not where the run's config says.

    Raises:
        InvalidInputError, MissingDataError: as :func:`zorba_core.runs.replay.open_model`; a text is missing or empty.
    """
    if isinstance(run, RunModel):
        frame, tuned = text_rows(run.run.task, texts), run
    else:
        run = finished_folder(run)
        frame = text_rows(run.task, texts)  # before anything slow
        tuned = open_model(run, model=model)
    parts = [frame.iloc[start : start + _CHUNK] for start in range(0, len(frame), _CHUNK)]
    common = {"frame": frame, "seq_len": tuned.settings.seq_len}
    with tuned.in_use():
        networks = [tuned.network, tuned.base()] if base else [tuned.network]
        if tuned.run.task.kind == "text":
            answers = [[written(tuned, network, part) for part in parts] for network in networks]
            after, *before = (tuple(text for texts, _ in by_part for text in texts) for by_part in answers)
            cut = sum(cut for _, cut in answers[0])
            return WrittenAnswers(**common, cut_rows=cut, after=after, before=before[0] if before else None)
        rows = [encoded(tuned, part) for part in parts]
        after_RC, *before_RC = (
            np.concatenate([label_probabilities(network, part) for part, _ in rows]) for network in networks
        )
    return Predictions(
        **common,
        cut_rows=sum(cut for _, cut in rows),
        labels=tuned.run.task.label_names,
        probability_RC=after_RC,
        base_RC=before_RC[0] if before_RC else None,
    )


def encoded(tuned: RunModel, frame: pd.DataFrame) -> tuple[Rows, int]:
    """The rows as the run's training had them, and how many texts are longer than that and lose their end."""
    task, tokenizer, seq_len = tuned.run.task, tuned.tokenizer, tuned.settings.seq_len
    rows = encode(task, frame, tokenizer, seq_len, labelled="label" in frame)
    check_tokens(tuned.network, tokenizer, rows)
    return rows, count_cuts(task, frame, tokenizer, seq_len)["prompts_cut"]


def label_probabilities(network: Blocks, rows: Rows) -> np.ndarray:
    """Probability of each label, or option, among those of its row, (R, C), float64."""
    return np.exp(label_log_probabilities(network, rows))


def written(tuned: RunModel, network: Blocks, frame: pd.DataFrame) -> tuple[list[str], int]:
    """What the model writes after each row's prompt, and how many texts lost their end.

    Prompts have the ``seq_len`` tokens of training; what is written comes on top, as far as the model's positions
    reach.
    """
    task, tokenizer, seq_len = tuned.run.task, tuned.tokenizer, tuned.settings.seq_len
    new = max(1, min(MAX_NEW_TOKENS, network.max_positions // 2))
    room = min(seq_len + new, network.max_positions)
    prompts = encode_prompts(task, frame, tokenizer, room, max_new_tokens=new)
    # With room for one token more, exactly the prompts that do not fit use it.
    longer = encode_prompts(task, frame, tokenizer, room + 1, max_new_tokens=new)
    check_tokens(network, tokenizer, *prompts)
    cut = sum(len(more) > len(prompt) for prompt, more in zip(prompts, longer, strict=True))
    return generate(network, tokenizer, prompts, max_new_tokens=new), cut


MAX_NEW_TOKENS = 64


def generate(
    network: Blocks,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int = MAX_NEW_TOKENS,
    batch_size: int = BATCH_SIZE,
) -> list[str]:
    """What the model writes after each prompt, the likeliest token each time, without space around it.

    Args:
        prompts: each the tokens of a prompt, as :func:`zorba_core.data.encode.encode_prompts` makes them.
        max_new_tokens: where a text that does not end by itself is cut.

    Raises:
        InvalidInputError: a prompt and ``max_new_tokens`` are more than the model's positions, or a prompt is empty.
    """
    tokens = generate_tokens(
        network, prompts, max_new_tokens=max_new_tokens, end=tokenizer.eos_token_id, batch_size=batch_size
    )
    return [tokenizer.decode(ids, skip_special_tokens=True).strip() for ids in tokens]


@torch.no_grad()
def generate_tokens(
    network: Blocks,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    end: int | None,
    batch_size: int = BATCH_SIZE,
) -> list[list[int]]:
    """The new tokens after each prompt, without ``end``, the token that ends a text."""
    if max_new_tokens < 1:
        raise InvalidInputError(f"max_new_tokens is {max_new_tokens}; it must be at least 1")
    by_length: dict[int, list[int]] = {}
    for place, prompt in enumerate(prompts):
        by_length.setdefault(len(prompt), []).append(place)
    if by_length and not min(by_length):
        raise InvalidInputError(f"prompt {by_length[0][0]} is empty: there is nothing to write after")
    if by_length and max(by_length) + max_new_tokens > network.max_positions:
        raise InvalidInputError(
            f"a prompt of {max(by_length)} tokens and {max_new_tokens} new ones are more than the model's "
            f"{network.max_positions} positions; ask for fewer new tokens or shorten the prompt"
        )
    greedy = GenerationConfig(
        max_new_tokens=max_new_tokens,
        do_sample=False,
        num_beams=1,
        eos_token_id=end,
        pad_token_id=end if end is not None else 0,
        use_cache=True,
    )
    written: list[list[int]] = [[] for _ in prompts]
    for length, places in sorted(by_length.items()):
        for start in range(0, len(places), batch_size):
            chosen = places[start : start + batch_size]
            ids_BL = torch.tensor([list(prompts[place]) for place in chosen], device=network.device)
            out_BL = network.model.generate(
                input_ids=ids_BL, attention_mask=torch.ones_like(ids_BL), generation_config=greedy
            )
            for place, ids in zip(chosen, out_BL[:, length:].tolist(), strict=True):
                written[place] = ids[: ids.index(end)] if end in ids else ids
    return written
