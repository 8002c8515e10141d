"""Blocks whose backward pass is written out, against the same blocks by their own modules and autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, OPTConfig, OPTForCausalLM
from transformers.models.opt.modeling_opt import OPTAttention

from tests.engine.test_cohort import SEEDS, batches, random_allocation
from tests.engine.test_exact_scalars import LABELS, TOLERANCE, assert_same
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators import attention
from zorba_core.engine.estimators.client_gradients import ClientGradients
from zorba_core.engine.estimators.exact import estimate_exact
from zorba_core.engine.estimators.jvp import estimate_jvp
from zorba_core.engine.estimators.pre_norm_blocks import PreNormBlock
from zorba_core.engine.families.activations import OneGelu
from zorba_core.engine.network import BlockNetwork

OPT = {"hidden_size": 32, "ffn_dim": 96, "num_attention_heads": 2, "word_embed_proj_dim": 32}
GPT2 = {"n_embd": 32, "n_head": 4, "n_positions": 40, "bos_token_id": 0, "eos_token_id": 0}


def model_of(family: str, **changed) -> nn.Module:
    """Four blocks, all weights random; GPT-2's feed-forward width is a multiple of 128."""
    torch.manual_seed(0)
    if family == "opt":
        sizes = {"num_hidden_layers": 4, "max_position_embeddings": 40, "vocab_size": 400}
        model = OPTForCausalLM(OPTConfig(**{**OPT, **sizes, **changed}))
    else:
        model = GPT2LMHeadModel(GPT2Config(**{**GPT2, "n_layer": 4, "vocab_size": 400, **changed}))
    for name, parameter in model.named_parameters():
        nn.init.normal_(parameter, 1.0 if "norm" in name and name.endswith("weight") else 0.0, 0.2)
    return model.eval()


def written_out(network: BlockNetwork) -> list[bool]:
    return [block is not None for block in ClientGradients(network, "frozen")._written_out_M]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("inactive", ["frozen", "dropped"])
@pytest.mark.parametrize("family", ["opt", "gpt2"])
@pytest.mark.parametrize(
    ("rows", "lengths", "max_rows"), [((8,), (16,), None), ((1, 3, 8), (5, 9), 3), ((2,), (1,), None)]
)
def test_clients_get_what_autograd_gives_them(monkeypatch, family, inactive, dtype, rows, lengths, max_rows):
    """Short rows have an attention of their own, which rounds otherwise: seen in float32."""
    network, clients = BlockNetwork(model_of(family), LABELS, dtype=dtype), 7
    directions = Directions("gaussian", network.sizes_M, dtype=dtype)
    batches_N = batches(clients, rows=rows, lengths=lengths)
    for seed, share in ((0, 1.0), (1, 0.5)):
        A_MN = random_allocation(seed, 4, clients, share)
        given = (network, batches_N, A_MN, SEEDS, directions)
        own = estimate_exact(*given, inactive=inactive, max_rows=max_rows)
        with monkeypatch.context() as patched:
            patched.setattr(attention, "is_short", lambda *_: False)
            by_one_attention = estimate_exact(*given, inactive=inactive, max_rows=max_rows)
            patched.setattr(PreNormBlock, "of", lambda *_: None)
            by_autograd = estimate_exact(*given, inactive=inactive, max_rows=max_rows)
        assert_same(by_autograd, by_one_attention, TOLERANCE[dtype] / 10)
        assert_same(by_autograd, own, TOLERANCE[dtype] / (1 if dtype == torch.float32 else 10))


@pytest.mark.parametrize(("family", "last"), [("opt", True), ("gpt2", False)])
def test_all_blocks_are_written_out_but_the_last_where_one_layer_makes_queries_and_keys(family, last):
    assert written_out(BlockNetwork(model_of(family), LABELS)) == [True, True, True, last]


@pytest.mark.parametrize("inactive", ["frozen", "dropped"])
def test_the_last_block_is_written_out_where_it_reads_enough_rows_at_one_position(monkeypatch, inactive):
    """Wherever in a row that is."""
    network, read, forward = BlockNetwork(model_of("opt"), LABELS, dtype=torch.float64), [], PreNormBlock.forward

    def counted(self, x_BLH, last_B=None):
        read.extend([] if last_B is None else last_B.tolist())
        return forward(self, x_BLH, last_B)

    monkeypatch.setattr(PreNormBlock, "forward", counted)
    for clients, A_MN in ((3, np.ones((4, 3), bool)), (7, random_allocation(1, 4, 7, 0.7))):
        rows, directions = batches(clients, (8,), (20,)), Directions("gaussian", network.sizes_M, dtype=torch.float64)
        given = (network, rows, A_MN, SEEDS, directions)
        own = estimate_exact(*given, inactive=inactive)
        assert_same(estimate_jvp(*given, inactive=inactive), own, 1e-10)
    assert len(set(read)) > 3


@pytest.mark.parametrize(
    ("family", "changed"),
    [
        ("opt", {"do_layer_norm_before": False}),
        ("opt", {"activation_function": "gelu"}),
        ("opt", {"enable_bias": False}),
        ("opt", {"layer_norm_elementwise_affine": False}),
        ("gpt2", {"n_inner": 100}),  # its GELU is not one operation
        ("gpt2", {"activation_function": "relu"}),
        ("gpt2", {"scale_attn_weights": False}),
        ("gpt2", {"add_cross_attention": True}),
    ],
)
def test_a_block_that_computes_anything_else_goes_through_its_own_modules(family, changed):
    network = BlockNetwork(model_of(family, **changed), LABELS)
    assert not any(written_out(network))


class Louder(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


class Shifted(nn.LayerNorm):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 1 + super().forward(x)


class Halved(OPTAttention):
    def forward(self, *args, **named):
        attended, *rest = super().forward(*args, **named)
        return attended / 2, *rest


class Flatter(OneGelu):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) / 2


def replace_fc1(block: nn.Module) -> None:
    block.fc1 = Louder(32, 96)


def replace_norm(block: nn.Module) -> None:
    block.final_layer_norm = Shifted(32)


def hook_fc1(block: nn.Module) -> None:
    block.fc1.register_forward_hook(lambda module, given, made: 1.5 * made)


def hook_before_attention(block: nn.Module) -> None:
    block.self_attn.out_proj.register_forward_pre_hook(lambda module, given: (2 * given[0],))


def subclass_attention(block: nn.Module) -> None:
    block.self_attn.__class__ = Halved


def scale_attention(block: nn.Module) -> None:
    block.self_attn.scaling *= 2


def own_forward(block: nn.Module) -> None:
    forward = block.self_attn.forward
    block.self_attn.forward = lambda *args, **named: forward(*args, **named)


@pytest.mark.parametrize(
    "change",
    [replace_fc1, replace_norm, hook_fc1, hook_before_attention, subclass_attention, scale_attention, own_forward],
)
def test_so_does_one_with_a_changed_module(change):
    model = model_of("opt")
    change(model.model.decoder.layers[1])
    network = BlockNetwork(model, LABELS, dtype=torch.float64)
    assert written_out(network) == [True, False, True, True]
    directions, A_MN = Directions("gaussian", network.sizes_M, dtype=torch.float64), np.ones((4, 3), bool)
    given = (network, batches(3), A_MN, SEEDS, directions)
    assert_same(estimate_jvp(*given), estimate_exact(*given), 1e-10)


def test_and_one_of_gpt2_with_another_activation_or_scale_of_its_own():
    model = model_of("gpt2", scale_attn_by_inverse_layer_idx=True)
    assert written_out(BlockNetwork(model, LABELS)) == [True, False, False, False]  # the first one's scale is 1
    model = model_of("gpt2")
    network = BlockNetwork(model, LABELS)
    model.transformer.h[1].mlp.act.__class__ = Flatter
    assert written_out(network) == [True, False, True, False]


def test_and_all_do_where_products_are_in_bfloat16():
    network = BlockNetwork(model_of("opt"), LABELS)
    with network.at_precision("bf16"):
        assert not any(written_out(network))
