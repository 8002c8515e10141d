"""Text written by the network's model: greedy decoding by ``transformers``, whose model computes with the same weights.

Prompts of one length go together, so nothing is padded: no family has to handle padding on the left, and no tokenizer
needs a padding token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from transformers import GenerationConfig

from zorba_core.engine.blocks import Blocks
from zorba_core.engine.evaluation import BATCH_SIZE
from zorba_core.errors import InvalidInputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

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
