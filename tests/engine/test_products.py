"""Products by PyTorch and by oneDNN: the same numbers but for rounding, whichever a machine takes."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from transformers.pytorch_utils import Conv1D

from zorba_core.engine import products
from zorba_core.engine.blocks import SAME_BITS_ROWS


@pytest.fixture(params=[True, False], ids=["oneDNN", "PyTorch"])
def library(request, monkeypatch):
    monkeypatch.setattr(products, "_onednn_is_faster", lambda: request.param)


def _numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("positions", [1, 3, 300, 2500])
def test_a_product_is_the_one_in_double_precision_but_for_rounding(library, positions):
    x_PI, weight_OI, bias_O = _numbers(positions, 96), _numbers(40, 96), _numbers(40)
    exact_PO = (x_PI.double() @ weight_OI.double().t()).float()
    for weight in (weight_OI, weight_OI.t().contiguous().t()):
        plain_PO = products.linear(x_PI, weight)
        torch.testing.assert_close(plain_PO, exact_PO, rtol=1e-5, atol=1e-4)
        torch.testing.assert_close(products.linear(x_PI, weight, bias_O), exact_PO + bias_O, rtol=1e-5, atol=1e-4)


def test_double_precision_is_kept(library):
    x_PI, weight_OI = _numbers(5, 96).double(), _numbers(40, 96).double()
    assert torch.equal(products.linear(x_PI, weight_OI), x_PI @ weight_OI.t())


@pytest.mark.parametrize(
    ("maker", "said"),
    [("GenuineIntel", "AVX512"), ("AuthenticAMD", "AVX512 of AuthenticAMD"), ("", "AVX512")],
)
def test_the_kernels_of_a_maker_have_a_name_of_their_own(monkeypatch, maker, said):
    monkeypatch.setattr(products, "cpu_maker", lambda: maker)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    assert products.cpu_kernels.__wrapped__() == said


def _fast_layer(inputs: int, outputs: int, kind: type[nn.Module] = nn.Linear) -> nn.Module:
    torch.manual_seed(inputs)
    layer = Conv1D(outputs, inputs) if kind is Conv1D else nn.Linear(inputs, outputs)
    block = nn.Sequential(layer).requires_grad_(False)
    products.speed_up(block)
    return block[0]


@pytest.mark.parametrize(("kind", "fast"), [(nn.Linear, products.FastLinear), (Conv1D, products.FastConv1D)])
def test_layers_are_the_fast_ones_where_they_are_faster(library, request, kind, fast):
    assert (type(_fast_layer(96, 40, kind)) is fast) == (request.node.callspec.params["library"])


@pytest.mark.parametrize("kind", [nn.Linear, Conv1D])
@pytest.mark.parametrize(("inputs", "outputs"), [(96, 384), (384, 96), (33, 65), (1500, 40)])
def test_a_row_has_the_same_bits_in_any_company(library, inputs, outputs, kind):
    layer, x_PI = _fast_layer(inputs, outputs, kind), _numbers(600, inputs)
    with torch.no_grad():
        own_PO = kind.forward(layer, x_PI)
        torch.testing.assert_close(layer(x_PI), own_PO, rtol=1e-5, atol=1e-4)
        whole_PO = layer(x_PI)
        for start, stop in ((0, SAME_BITS_ROWS), (5, 69), (17, 500), (64, 600)):
            assert torch.equal(layer(x_PI[start:stop]), whole_PO[start:stop])
        assert torch.equal(layer(x_PI.view(20, 30, inputs)).view(600, -1), whole_PO)


@pytest.mark.parametrize("kind", [nn.Linear, Conv1D])
def test_the_gradient_of_the_input_and_of_the_weights_are_pytorchs(library, kind):
    layer, x, dy = _fast_layer(96, 40, kind), _numbers(600, 96).view(20, 30, 96), _numbers(600, 40).view(20, 30, 40)
    layer.requires_grad_(False)
    x.requires_grad_(True)
    (dx,) = torch.autograd.grad(layer(x).relu_(), x, dy)
    (own_dx,) = torch.autograd.grad(kind.forward(layer, x).relu(), x, dy)
    torch.testing.assert_close(dx, own_dx, rtol=1e-4, atol=1e-3)
    out_OI = torch.ones(40, 96)
    products.put_product(out_OI, dy.flatten(0, 1), x.detach().flatten(0, 1))
    torch.testing.assert_close(out_OI, 1 + dy.flatten(0, 1).t() @ x.detach().flatten(0, 1), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", [nn.Linear, Conv1D])
def test_what_is_differentiated_or_rounded_takes_pytorchs_product(monkeypatch, kind):
    monkeypatch.setattr(products, "_onednn_is_faster", lambda: True)
    layer, x_PI = _fast_layer(96, 40, kind), _numbers(20, 96)
    monkeypatch.setattr(products, "_onednn_linear", lambda *given: pytest.fail("oneDNN multiplied"))
    layer.requires_grad_(True)
    assert layer(x_PI).requires_grad
    with torch.no_grad():
        with torch.autocast("cpu", torch.bfloat16):
            assert layer(x_PI).dtype == torch.bfloat16
        with forward_ad.dual_level():
            along = forward_ad.unpack_dual(layer(forward_ad.make_dual(x_PI.detach(), torch.ones(20, 96)))).tangent
            weight_IO = layer.weight if kind is Conv1D else layer.weight.t()
            torch.testing.assert_close(along, torch.ones(20, 96) @ weight_IO, rtol=1e-4, atol=1e-4)
        assert layer.double()(x_PI.double()).dtype == torch.float64


@pytest.mark.parametrize("positions", [1, 15, 16, 17, 48, 100, 127, 128, 129, 300, 2047, 2048, 2049, 5000])
def test_any_number_of_positions_goes_in_few_kinds_of_pieces(monkeypatch, positions):
    monkeypatch.setattr(products, "_onednn_is_faster", lambda: True)
    given, multiply = set(), products._onednn_linear
    monkeypatch.setattr(products, "_onednn_linear", lambda x, *others: given.add(len(x)) or multiply(x, *others))
    x_PI, weight_OI, bias_O = _numbers(positions, 32), _numbers(24, 32), _numbers(24)
    product_PO = products.linear(x_PI, weight_OI, bias_O)
    torch.testing.assert_close(product_PO, nn.functional.linear(x_PI, weight_OI, bias_O), rtol=1e-5, atol=1e-4)
    assert given <= {16, 32, 64, *range(128, 2049, 128)}
