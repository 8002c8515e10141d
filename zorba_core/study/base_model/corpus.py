"""What the base model reads: windows of running text, and prompts grouped by length.

Shapes: W windows or rows, L token positions, R rows of a task, B rows of a batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from transformers import PreTrainedTokenizerBase

from zorba_core.data.load import DATA_VARIABLE, data_folder, load
from zorba_core.engine.rows import Rows
from zorba_core.errors import MissingDataError
from zorba_core.study.base_model.recipe import BaseModelRecipe
from zorba_core.study.base_model.tokenizer import START_ID

_CHARACTERS_PER_TOKEN = 4.3
_REVIEWS = ("imdb_reviews", "yelp_amazon_reviews")
_PUNCTUATION = re.compile(r"([.,!?;:()\"]|n't\b|'(?:s|re|ve|ll|d|m)\b)")
_TAGS = re.compile(r"<br\s*/?>|\s+")


def load_corpus() -> dict[str, list[str]]:
    """Unlabelled texts by file name, of ``corpus/*.parquet`` below ``ZORBA_DATA``.

    Raises:
        MissingDataError: the folder is not there.
    """
    folder = data_folder()
    files = sorted((folder / "corpus").glob("*.parquet")) if folder else []
    if not files:
        raise MissingDataError(
            f"no text corpus: set {DATA_VARIABLE} to a folder with corpus/*.parquet (column text); "
            "or use --profile tiny, which needs no data"
        )
    return {file.stem: pd.read_parquet(file, columns=["text"])["text"].tolist() for file in files}


def corpus_texts(recipe: BaseModelRecipe, seed: int) -> dict[str, list[str]]:
    """Texts to model by source, in random order, as many as the recipe's language-model steps read (and some spare).

    Film and product reviews are rewritten the way SST-2 is written, with punctuation standing alone. Without a corpus
    in the recipe the texts are the built-in toy reviews.
    """
    if not recipe.needs_data:
        return {"toy-reviews": load("toy-reviews", "base")["text"].tolist()}
    sources = load_corpus() | {"ag-news": load("ag-news", "base")["text"].tolist()}
    num_characters = lm_tokens(recipe) * _CHARACTERS_PER_TOKEN
    chosen = {}
    for index, (name, share) in enumerate(sorted(recipe.corpus.items())):
        texts = sources[name]
        order = np.random.default_rng([seed, 1, index]).permutation(len(texts))
        picked, size = [], 0
        for row in order:
            if size > share * num_characters:
                break
            text = texts[row]
            picked.append(_like_sst2(text) if name in _REVIEWS else text)
            size += len(text)
        chosen[name] = picked
    return chosen


def _like_sst2(text: str) -> str:
    return _TAGS.sub(" ", _PUNCTUATION.sub(r" \1 ", _TAGS.sub(" ", text)))


def lm_tokens(recipe: BaseModelRecipe) -> int:
    """Tokens that the language-model steps of the recipe read, at most (the mixed steps draw their kinds)."""
    steps = recipe.lm_steps + 1.1 * recipe.mixture.get("lm", 0.0) * recipe.mixed_steps
    return int(steps * recipe.lm_rows * recipe.seq_len)


def windows(texts: dict[str, list[str]], tokenizer: PreTrainedTokenizerBase, seq_len: int, seed: int) -> torch.Tensor:
    """All texts as one shuffled table of windows, int64 (W, L); each starts with the token that starts every prompt."""
    tables = []
    for _, rows in sorted(texts.items()):
        ids: list[int] = []
        for row in tokenizer(rows, verbose=False)["input_ids"]:  # every text begins with </s>
            ids.extend(row)
        count = len(ids) // (seq_len - 1)
        table = np.empty((count, seq_len), dtype=np.int64)
        table[:, 0] = START_ID
        table[:, 1:] = np.asarray(ids[: count * (seq_len - 1)]).reshape(count, seq_len - 1)
        tables.append(table)
    table = np.concatenate(tables)
    return torch.from_numpy(table[np.random.default_rng([seed, 2]).permutation(len(table))])


def window_batches(window_WL: torch.Tensor, rows: int) -> Iterator[torch.Tensor]:
    """Batches of windows, in order, from the start again when they run out."""
    position = 0
    while True:
        index_B = torch.arange(position, position + rows) % len(window_WL)
        position += rows
        yield window_WL[index_B]


def task_batches(encoded: Rows, rows: int, seed: int, pool: int = 16) -> Iterator[Rows]:
    """Batches of prompts of like length, cut to their longest: little of a batch is padding.

    Each epoch is a new order; ``pool`` batches at a time are sorted by length, and handed out in random order.
    """
    rng = np.random.default_rng([seed, 3])
    rows = min(rows, len(encoded))
    while True:
        order = rng.permutation(len(encoded))
        for start in range(0, len(order) - rows + 1, rows * pool):
            piece = order[start : start + rows * pool]
            piece = piece[np.argsort(encoded.last_R[piece].numpy(), kind="stable")]
            batches = [piece[at : at + rows] for at in range(0, len(piece) - rows + 1, rows)]
            for index in rng.permutation(len(batches)):
                yield encoded.rows(batches[index]).to("cpu")


def rows_of(encoded: Rows, tokens: int) -> int:
    """How many prompts of mean length make up ``tokens`` tokens."""
    return max(1, round(tokens / (1.0 + float(encoded.last_R.double().mean()))))
