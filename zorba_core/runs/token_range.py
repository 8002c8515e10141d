"""Whether the tokens that a tokenizer writes have a row in the model's embeddings.

Many tokenizers have a few tokens more than their model has rows, and never write them: only ids that occur are looked
at. A padding id counts, since padded positions are looked up too.
"""

from __future__ import annotations

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from zorba_core.engine.blocks import Blocks
from zorba_core.engine.rows import Rows
from zorba_core.errors import InvalidInputError, in_short


def check_tokens(network: Blocks, tokenizer: PreTrainedTokenizerBase, *parts: Rows | Sequence[int]) -> None:
    """
    Args:
        parts: rows, or tokens.

    Raises:
        InvalidInputError: a token has no row in the embeddings or in the head; names the model and the token.
    """
    rows = min(network.vocabulary_size, len(network.model.get_input_embeddings().weight))
    largest = max(part.largest_token if isinstance(part, Rows) else max(map(int, part), default=-1) for part in parts)
    if largest >= rows:
        raise InvalidInputError(
            f"model {tokenizer.name_or_path}: its tokenizer has {len(tokenizer)} tokens and its weights have rows for "
            f"{rows}; token {largest} ({in_short(tokenizer.convert_ids_to_tokens(largest))}) occurs and has none: "
            "restore the tokenizer's files from a copy, or give a model with its own tokenizer"
        )
