"""Products in less than the dtype's precision: what they change and what they leave alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.engine.test_cohort import batches as cohort_batches
from zorba_core.allocation import Allocation
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.estimators.reference import estimate
from zorba_core.engine.evaluation import evaluate
from zorba_core.engine.loop import FederatedRows
from zorba_core.engine.precision import check_capability
from zorba_core.engine.rows import Rows
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError
from zorba_core.runs.preflight import preflight

A_MN = np.array([[1, 0, 0, 1], [0, 1, 0, 1], [0, 1, 1, 1]], dtype=bool)
SEEDS = range(8)


def batches(num_clients: int = 4) -> list[Rows]:
    return cohort_batches(num_clients, lengths=(20,))


def network_of(family: str, make_tiny_model, precision: str = "bf16") -> Blocks:
    return Blocks(make_tiny_model(family), precision=precision)


def relative_error(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def test_bfloat16_products_leave_scalars_that_still_point_the_right_way(family, make_tiny_model):
    """Off by parts of a hundred, where float32 is off by parts of a million; a larger mu brings them closer."""
    network = network_of(family, make_tiny_model)
    directions, rows = Directions("rademacher", network.sizes_M), batches()
    error = {}
    for mu in (1e-3, 1e-2):
        with network.at_precision("highest"):
            exact_NQ = estimate_cohort(network, rows, A_MN, SEEDS, directions, mu=mu).rho_NQ
        found_NQ = estimate_cohort(network, rows, A_MN, SEEDS, directions, mu=mu).rho_NQ
        error[mu] = relative_error(found_NQ, exact_NQ)
        again_NQ = estimate(network, rows, A_MN, SEEDS, directions, mu=mu).rho_NQ
        assert relative_error(again_NQ, exact_NQ) < 2 * error[mu] + 1e-3
    assert 1e-4 < error[1e-2] < error[1e-3]
    assert error[1e-2] < 0.3


def test_weights_hidden_states_and_logits_keep_their_dtype(family, make_tiny_model):
    network = network_of(family, make_tiny_model)
    rows = batches(1)[0]
    hidden_BLH = network.run_block(0, network.embed(rows.token_ids_RL))
    assert hidden_BLH.dtype == network.block_weights(0).dtype == torch.float32
    assert rows.scores(network, network(rows)).dtype == torch.float64


def test_evaluation_multiplies_in_the_dtype_whatever_the_run_does(make_tiny_model):
    rows = batches(1)[0]
    fast, exact = (evaluate(network_of("opt", make_tiny_model, p), rows) for p in ("bf16", "highest"))
    assert fast == exact


def test_a_precision_is_put_back_when_a_pass_fails(make_tiny_model):
    network = network_of("opt", make_tiny_model)
    with pytest.raises(IndexError), network.at_precision("highest"):
        network.run_block(99, torch.zeros(1, 2, 16))
    assert network.precision == "bf16"


def rows_of(count: int) -> FederatedRows:
    together = Rows.joined(batches(count))
    return FederatedRows(together, list(np.arange(4 * count).reshape(count, 4)), together)


def test_preflight_measures_what_products_lose_and_refuses_where_it_is_everything(make_tiny_model):
    network, allocation = network_of("opt", make_tiny_model), Allocation(A_MN)
    settings = {"precision": "bf16", "batch_size": 4, "seq_len": 20, "direction": "rademacher", "estimator": "cohort"}

    def checks(mu: float):
        found = preflight(network, allocation, rows_of(4), Settings(mu=mu, lr=1e-4, **settings))
        return {check.name: check for check in found.checks}, found

    good, _ = checks(1e-2)
    assert good["products"].passed
    assert 0 < good["products"].measured < 0.5
    bad, report = checks(1e-6)
    assert not bad["products"].passed
    assert "with products in bf16 the scalars differ" in report.reason()
    assert "precision highest" in report.reason()
    exact = preflight(
        network_of("opt", make_tiny_model, "highest"), allocation, rows_of(4), Settings(batch_size=4, seq_len=20)
    )
    assert "products" not in {check.name for check in exact.checks}


def test_a_precision_that_does_not_fit_is_refused(subtests):
    for fields, words in [
        ({"precision": "half"}, "precision is 'half'; choose highest, bf16 or tf32"),
        ({"precision": "tf32"}, "which needs device 'cuda'"),
    ]:
        with subtests.test(fields=fields, words=words), pytest.raises(InvalidInputError, match=words):
            Settings(**fields)


def test_a_gpu_that_can_only_imitate_a_precision_is_refused():
    check_capability("tf32", (8, 0))
    check_capability("bf16", (9, 0))
    with pytest.raises(InvalidInputError, match=r"'bf16' and the GPU has compute capability 7.5; it needs 8.0"):
        check_capability("bf16", (7, 5))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_on_a_gpu_the_scalars_still_point_the_right_way(make_tiny_model, precision):
    network = Blocks(make_tiny_model("opt"), device="cuda", precision=precision)
    directions = Directions("rademacher", network.sizes_M, device="cuda")
    found_NQ = estimate_cohort(network, batches(), A_MN, SEEDS, directions, mu=1e-2).rho_NQ
    with network.at_precision("highest"):
        exact_NQ = estimate_cohort(network, batches(), A_MN, SEEDS, directions, mu=1e-2).rho_NQ
    assert relative_error(found_NQ, exact_NQ) < 0.3
