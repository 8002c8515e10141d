"""GPT-2's GELU as one operation: Hugging Face's numbers but for rounding, and a row's bits in any company."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers.activations import NewGELUActivation

from zorba_core.engine.families import activations, family_of
from zorba_core.planning.pass_widths import is_written_out


def _joined() -> nn.Module:
    block = nn.Sequential(NewGELUActivation())
    activations.join_gelus(block)
    return block[0]


def _numbers(*shape: int) -> torch.Tensor:
    return 3 * torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_the_written_out_one_but_for_rounding(dtype):
    x_PF = torch.cat([_numbers(50, 128), torch.tensor([[0.0, -0.0, 1e-30, -40.0, 40.0] * 25 + [1.0] * 3])]).to(dtype)
    rounding = 16 * torch.finfo(dtype).eps
    torch.testing.assert_close(_joined()(x_PF), NewGELUActivation()(x_PF), rtol=rounding, atol=4 * rounding)


@pytest.mark.parametrize("width", [100, 128, 384])
def test_a_row_has_the_same_bits_in_any_company(width):
    gelu, x_PF = _joined(), _numbers(601, width)
    whole_PF = gelu(x_PF)
    for start, stop in ((0, 1), (5, 22), (17, 500), (64, 601)):
        assert torch.equal(gelu(x_PF[start:stop].clone()), whole_PF[start:stop])


def test_widths_that_would_leave_a_rest_stay_written_out():
    x_PF = _numbers(7, 100)
    assert is_written_out(100)
    assert torch.equal(_joined()(x_PF), NewGELUActivation()(x_PF))


def test_a_models_gelus_are_joined(make_tiny_model):
    model = make_tiny_model("gpt2")
    assert any(type(module) is NewGELUActivation for module in model.modules())
    family_of(model)
    assert not any(type(module) is NewGELUActivation for module in model.modules())
