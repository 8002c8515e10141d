"""OPT's blocks as a GPU runs them, on the CPU: the same numbers as the model's own, in fewer operations."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.engine.forward_mode import estimate_jvp
from tests.engine.test_cohort import LABELS, MU, SEEDS, assert_same, batches, random_allocation
from zorba_core.engine.adapters import with_adapters
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.estimators.exact import estimate_exact
from zorba_core.engine.estimators.reference import Estimate, estimate
from zorba_core.engine.families.opt import run_joined
from zorba_core.engine.network import BlockNetwork
from zorba_core.planning.lora import Lora


def network_of(make_tiny_model, family: str = "opt", joins: bool = True, lora: Lora | None = None) -> BlockNetwork:
    model = make_tiny_model(family, num_blocks=4)
    network = BlockNetwork(model if lora is None else with_adapters(model, lora, 0), LABELS, dtype=torch.float64)
    network._family.joins = joins
    return network


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_joined_block_gives_what_the_block_gives(make_tiny_model, dtype):
    block = make_tiny_model("opt").to(dtype).model.decoder.layers[1]
    x_BLH = torch.randn(5, 9, 16, dtype=dtype, generator=torch.Generator().manual_seed(0))
    before = x_BLH.clone()
    with torch.no_grad():
        wanted, found = block(x_BLH), run_joined(block, x_BLH)
    torch.testing.assert_close(found, wanted, rtol=0, atol=20 * torch.finfo(dtype).eps * float(wanted.abs().max()))
    assert torch.equal(x_BLH, before)


@pytest.mark.parametrize("kind", ["rademacher", "low-rank"])
@pytest.mark.parametrize("inactive", ["frozen", "dropped"])
def test_the_cohort_of_joined_blocks_has_the_references_scalars(make_tiny_model, inactive, kind):
    found: list[Estimate] = []
    for joins in (True, False):
        network = network_of(make_tiny_model, joins=joins)
        directions = Directions(kind, network.shapes_M, dtype=network.dtype)
        by = estimate_cohort if joins else estimate
        found.append(by(network, batches(9), random_allocation(0, 4, 9), SEEDS, directions, mu=MU, inactive=inactive))
    assert_same(found[1], found[0], 1e-9)


@pytest.mark.parametrize("lora", [None, Lora(2, 4.0, ("q_proj", "fc1"))], ids=["blocks", "lora"])
def test_where_something_is_differentiated_the_models_own_blocks_run(make_tiny_model, lora):
    rho_NQ = []
    for joins in (True, False):
        network = network_of(make_tiny_model, joins=joins, lora=lora)
        for m in range(network.num_blocks):
            network.block_weights(m).add_(0.01)  # adapters begin at zero
        directions = Directions("gaussian", network.shapes_M, dtype=network.dtype)
        for by in (estimate_exact, estimate_jvp):
            rho_NQ.append(by(network, batches(5), random_allocation(1, 4, 5, 0.6), SEEDS, directions, mu=MU).rho_NQ)
    for found in rho_NQ[1:]:
        assert np.abs(found - rho_NQ[0]).max() < 1e-10 * np.abs(rho_NQ[0]).max()


def test_only_blocks_that_fit_are_joined_and_none_on_a_cpu(make_tiny_model):
    for family, can in (("opt", True), ("opt-post-norm", False)):
        network = BlockNetwork(make_tiny_model(family), LABELS)
        assert network._family.can_join is can
        assert not network._family.joins
    assert not BlockNetwork(make_tiny_model("opt", activation="gelu"), LABELS)._family.can_join
