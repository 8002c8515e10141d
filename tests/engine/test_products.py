"""Products by PyTorch and by oneDNN: the same numbers but for rounding, whichever a machine takes."""

from __future__ import annotations

import pytest
import torch

from tests.engine.test_cohort import batches, random_allocation
from tests.engine.test_exact_scalars import LABELS, assert_same, both
from zorba_core.engine import products
from zorba_core.engine.network import BlockNetwork


@pytest.fixture(params=[True, False], ids=["oneDNN", "PyTorch"])
def library(request, monkeypatch):
    monkeypatch.setattr(products, "_onednn_is_faster", lambda: request.param)
    monkeypatch.setattr(products, "_LEAST_WORK", 0)


def _numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("positions", [1, 3, 300])
def test_a_product_is_the_one_in_double_precision_but_for_rounding(library, positions):
    x_PI, weight_OI, bias_O = _numbers(positions, 96), _numbers(40, 96), _numbers(40)
    exact_PO = (x_PI.double() @ weight_OI.double().t()).float()
    for weight in (weight_OI, weight_OI.t().contiguous().t()):
        torch.testing.assert_close(products.linear(x_PI, weight), exact_PO, rtol=1e-5, atol=1e-4)
        out_PO = torch.full((positions, 40), torch.nan)
        products.put_linear(out_PO, x_PI, weight, None)
        torch.testing.assert_close(out_PO, exact_PO, rtol=1e-5, atol=1e-4)
        products.put_linear(out_PO, x_PI, weight, bias_O)
        torch.testing.assert_close(out_PO, exact_PO + bias_O, rtol=1e-5, atol=1e-4)


def test_products_of_clients_replace_what_was_there_or_add_to_it(library):
    left_CPO, right_CPI = _numbers(3, 64, 24), _numbers(3, 64, 40)
    exact_COI = (left_CPO.double().transpose(1, 2) @ right_CPI.double()).float()
    out_COI = torch.full((3, 24, 40), torch.nan)
    products.put_products(out_COI, left_CPO, right_CPI, add=False)
    torch.testing.assert_close(out_COI, exact_COI, rtol=1e-5, atol=1e-4)
    products.put_products(out_COI, left_CPO, right_CPI, add=True)
    torch.testing.assert_close(out_COI, 2 * exact_COI, rtol=1e-5, atol=1e-4)


def test_double_precision_is_kept(library):
    x_PI, weight_OI = _numbers(5, 96).double(), _numbers(40, 96).double()
    assert torch.equal(products.linear(x_PI, weight_OI), x_PI @ weight_OI.t())


def test_exact_scalars_by_either_library_are_forward_modes(library, family, make_tiny_model):
    network = BlockNetwork(make_tiny_model(family), LABELS)
    forward_mode, backward = both(network, batches(5), random_allocation(0, 3, 5), torch.float32, max_rows=3)
    assert_same(forward_mode, backward, 1e-5)


@pytest.mark.parametrize(
    ("maker", "said"),
    [("GenuineIntel", "AVX512"), ("AuthenticAMD", "AVX512 of AuthenticAMD"), ("", "AVX512")],
)
def test_the_kernels_of_a_maker_have_a_name_of_their_own(monkeypatch, maker, said):
    monkeypatch.setattr(products, "cpu_maker", lambda: maker)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    assert products.cpu_kernels.__wrapped__() == said
