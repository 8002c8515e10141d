"""Rows and networks of a small run, and a client without a finite loss."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch

from zorba_core.engine.blocks import Blocks
from zorba_core.engine.round import FederatedRows
from zorba_core.engine.rows import Rows

POISON = 399  # a token of no row


def rows_of_two_kinds(count: int, seed: int) -> Rows:
    """Prompts of tokens 30..44 have label 0, prompts of tokens 45..59 label 1."""
    generator = torch.Generator().manual_seed(seed)
    label_R = torch.randint(0, 2, (count,), generator=generator)
    token_ids_RL = torch.randint(30, 45, (count, 8), generator=generator) + 15 * label_R[:, None]
    return Rows.of_words(token_ids_RL, torch.randint(2, 8, (count,), generator=generator), label_R, [70, 71])


@pytest.fixture
def rows() -> FederatedRows:
    return FederatedRows(rows_of_two_kinds(60, 1), [np.arange(n, 60, 4) for n in range(4)], rows_of_two_kinds(40, 2))


@pytest.fixture
def new_network(make_tiny_model) -> Callable[..., Blocks]:
    return lambda family="opt", dtype=torch.float32: Blocks(make_tiny_model(family), dtype=dtype)


@pytest.fixture
def poisoned(new_network, rows) -> tuple[Blocks, FederatedRows]:
    """A network in which one token has infinite embeddings, and rows in which only client 2 has that token."""
    network = new_network()
    with torch.no_grad():
        network.model.model.decoder.embed_tokens.weight[POISON] = torch.inf
    token_ids_RL = rows.train.token_ids_RL.clone()
    token_ids_RL[rows.held_N[2], 0] = POISON
    return network, dataclasses.replace(rows, train=dataclasses.replace(rows.train, token_ids_RL=token_ids_RL))
