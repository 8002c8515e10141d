"""Answers of a fine-tuned model, and of its base model, to new texts.

Shapes: R rows, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from transformers import GenerationConfig

from zorba_core.data.encode import encode_counted, encode_prompts
from zorba_core.data.own_rows import Texts, text_rows
from zorba_core.data.task import TableRows
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.evaluation import BATCH_SIZE, label_log_probabilities
from zorba_core.engine.rows import Rows
from zorba_core.errors import InvalidInputError
from zorba_core.runs.folder import RunFolder, finished_folder
from zorba_core.runs.load import check_tokens
from zorba_core.runs.replay import RunModel, open_model

MAX_NEW_TOKENS = 64
_CHUNK = 4096  # rows that are encoded at a time


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers to R rows by the fine-tuned model, and optionally by the base model."""

    frame: pd.DataFrame  # the columns that the prompt reads
    columns: dict[str, list[Any]]  # prediction, and probability of a label; base_prediction, base_probability
    cut_rows: int  # texts longer than seq_len: their ends were cut
    seq_len: int
    labels: tuple[str, ...] = ()  # empty where the model writes text
    probability_RC: np.ndarray | None = None  # None where the model writes text
    base_RC: np.ndarray | None = None  # probabilities by the base model

    def table(self) -> pd.DataFrame:
        """The texts, followed by :attr:`columns`."""
        return self.frame.assign(**self.columns)

    def probabilities(self, row: int, base: bool = False) -> dict[str, float]:
        """Each label's probability for one row, in descending order."""
        probability_C = cast(np.ndarray, self.base_RC if base else self.probability_RC)[row]
        order_C = np.argsort(-probability_C, kind="stable")
        return {self.labels[label]: float(probability_C[label]) for label in order_C}

    @property
    def note(self) -> str:
        """A sentence about texts that were cut; empty if there are none."""
        if not self.cut_rows:
            return ""
        count, rows = self.cut_rows, len(self.frame)
        which = "the text is" if rows == 1 else f"{count} of {rows} texts {'is' if count == 1 else 'are'}"
        return f"{which} longer than the run's seq_len of {self.seq_len} tokens; the rest was not read"


def predict(run: RunFolder, texts: Texts | TableRows, *, base: bool = False, model: str | None = None) -> Answers:
    """The label or the written answer of the run's fine-tuned model for each text.

    Args:
        texts: a text or several; for a task with several text columns, mappings from column to text; or a table; or
            the rows of a file.
        base: answer with the base model as well.
        model: folder of the base model, if it is not the one in the run's config.

    Raises:
        InvalidInputError, MissingDataError: as :func:`zorba_core.runs.replay.open_model`; a text is missing or empty.
    """
    run = finished_folder(run)
    frame, labels = text_rows(run.task, texts), run.task.label_names  # wrong texts fail before the model is loaded
    tuned = open_model(run, model=model)
    parts = [frame.iloc[start : start + _CHUNK] for start in range(0, len(frame), _CHUNK)]
    columns: dict[str, list[Any]] = {}
    probability: dict[str, np.ndarray] = {}
    with tuned.in_use():
        networks = {"": tuned.network, **({"base_": tuned.base()} if base else {})}
        if run.task.kind == "text":
            for prefix, network in networks.items():
                answers, cuts = zip(*(written(tuned, network, part) for part in parts), strict=True)
                columns[f"{prefix}prediction"] = [text for part in answers for text in part]
        else:
            rows, cuts = zip(*(encoded(tuned, part) for part in parts), strict=True)
            for prefix, network in networks.items():
                label_RC = np.concatenate([label_probabilities(tuned, network, part) for part in rows])
                columns[f"{prefix}prediction"] = [labels[label] for label in label_RC.argmax(axis=1)]
                columns[f"{prefix}probability"] = label_RC.max(axis=1).tolist()
                probability[prefix] = label_RC
    return Answers(
        frame, columns, sum(cuts), tuned.settings.seq_len, labels, probability.get(""), probability.get("base_")
    )


def encoded(tuned: RunModel, frame: pd.DataFrame) -> tuple[Rows, int]:
    """The rows as tokens, encoded as in training, and how many texts ``seq_len`` cuts."""
    task, tokenizer, seq_len = tuned.run.task, tuned.tokenizer, tuned.settings.seq_len
    rows, cuts = encode_counted(task, frame, tokenizer, seq_len, labelled="label" in frame)
    check_tokens(tuned.network, tokenizer, rows)
    return rows, cuts["prompts_cut"]


def label_probabilities(tuned: RunModel, network: Blocks, rows: Rows) -> np.ndarray:
    """Probability of each of a row's labels or options by the run's model or its base, (R, C), float64; rows sum to 1.
    With calibration batch, each is without the preference that was measured with its own weights."""
    prior_C = tuned.run.preference(tuned.round if network is tuned.network else 0)
    if prior_C is not None:
        rows = rows.with_prior(prior_C)
    return np.exp(label_log_probabilities(network, rows))


def written(tuned: RunModel, network: Blocks, frame: pd.DataFrame) -> tuple[list[str], int]:
    """The model's answer to each row's prompt, and how many texts were cut.

    A prompt has at most ``seq_len`` tokens, as in training. The answer follows it, within the model's positions.
    """
    task, tokenizer, seq_len = tuned.run.task, tuned.tokenizer, tuned.settings.seq_len
    new = max(1, min(MAX_NEW_TOKENS, network.max_positions // 2))
    room = min(seq_len + new, network.max_positions)
    prompts, cut = encode_prompts(task, frame, tokenizer, room, max_new_tokens=new)
    check_tokens(network, tokenizer, *prompts)
    tokens = generate_tokens(network, prompts, max_new_tokens=new, end=cast(int, tokenizer.eos_token_id))
    return [cast(str, tokenizer.decode(ids, skip_special_tokens=True)).strip() for ids in tokens], cut


@torch.no_grad()
def generate_tokens(
    network: Blocks,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    end: int | None,
) -> list[list[int]]:
    """Greedy decoding: the new tokens after each prompt, up to ``end`` (not included), the token that ends a text.

    A batch has prompts of one length only. So nothing is padded: padding on the left fails with some model families,
    and some tokenizers have no padding token.

    Raises:
        InvalidInputError: a prompt is empty.
    """
    by_length: dict[int, list[int]] = {}
    for place, prompt in enumerate(prompts):
        by_length.setdefault(len(prompt), []).append(place)
    if by_length and not min(by_length):
        raise InvalidInputError(f"prompt {by_length[0][0]} is empty; give it at least one token")
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
        for start in range(0, len(places), BATCH_SIZE):
            chosen = places[start : start + BATCH_SIZE]
            ids_BL = torch.tensor([list(prompts[place]) for place in chosen], device=network.device)
            out_BL = cast(Any, network.model).generate(
                input_ids=ids_BL, attention_mask=torch.ones_like(ids_BL), generation_config=greedy
            )
            for place, ids in zip(chosen, out_BL[:, length:].tolist(), strict=True):
                written[place] = ids[: ids.index(end)] if end in ids else ids
    return written
