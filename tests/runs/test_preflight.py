from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from transformers import OPTConfig, OPTForCausalLM

from zorba_core.allocation import Allocation
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.loop import FederatedRows
from zorba_core.engine.rows import Rows
from zorba_core.engine.settings import Settings
from zorba_core.runs.preflight import preflight

ALLOCATION = Allocation(np.ones((6, 4), dtype=bool))


def rows_of_two_kinds(count: int, seed: int) -> Rows:
    generator = torch.Generator().manual_seed(seed)
    label_R = torch.randint(0, 2, (count,), generator=generator)
    token_ids_RL = torch.randint(30, 45, (count, 16), generator=generator) + 15 * label_R[:, None]
    return Rows.of_words(token_ids_RL, torch.randint(8, 16, (count,), generator=generator), label_R, [40, 50])


ROWS = FederatedRows(rows_of_two_kinds(60, 1), [np.arange(n, 60, 4) for n in range(4)], rows_of_two_kinds(40, 2))


@pytest.fixture(scope="module")
def network() -> Blocks:
    """An OPT with weights of the size that OPT's have (standard deviation 0.02), 0.3 million in its blocks."""
    config = OPTConfig(
        vocab_size=100, hidden_size=64, ffn_dim=256, num_hidden_layers=6, num_attention_heads=4,
        max_position_embeddings=32, word_embed_proj_dim=64,
    )  # fmt: skip
    model = OPTForCausalLM(config)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.normal_(0, 0.02, generator=generator)
    return Blocks(model)


def measured(network: Blocks, **settings) -> tuple[dict[str, float], list[str], str]:
    report = preflight(network, ALLOCATION, ROWS, Settings(seq_len=16, **{"estimator": "cohort", **settings}))
    failed = [check.name for check in report.failed]
    return {check.name: check.measured for check in report.checks}, failed, report.reason() if failed else ""


def test_the_papers_literal_setting_is_refused_since_its_steps_are_below_the_weights_resolution(network):
    found, failed, reason = measured(network, direction="unit-sphere", mu=1e-4, lr=5e-5)
    assert failed == ["update", "progress"]
    assert found["update"] > 0.5
    assert found["progress"] < 1e-4  # nats, in a thousand rounds
    assert "direction gaussian or rademacher" in reason
    assert "--force" in reason
    assert "\n" not in reason


@pytest.mark.parametrize("direction", ["gaussian", "rademacher", "sphere"])
def test_directions_of_norm_sqrt_d_pass_with_the_same_mu_and_rate(network, direction):
    _, failed, _ = measured(network, direction=direction, mu=1e-4, lr=5e-5)
    assert failed == []


def test_a_step_longer_than_sense_is_refused_with_a_rate_that_passes(network):
    found, failed, reason = measured(network, lr=3.0)
    assert failed == ["stride"]
    assert found["stride"] > 0.5
    advised = float(reason.split("an lr below ")[1].split()[0])
    assert measured(network, lr=advised)[1] == []


def test_a_mu_below_the_weights_resolution_is_refused_with_one_that_passes(network):
    found, failed, reason = measured(network, mu=1e-11)
    assert failed == ["perturbation", "scalars"]
    assert found["perturbation"] > 0.9
    advised = float(reason.split("mu ")[-1].split()[0])
    assert measured(network, mu=advised)[1] == []


@pytest.mark.parametrize("mu", [1e-30, 1e-20, 10.0, 1e10, 1e30])
def test_however_far_off_a_mu_is_the_advised_one_passes_and_its_own_value_is_named(network, mu):
    _, failed, reason = measured(network, mu=mu)
    assert "scalars" in failed
    assert f"finite differences at mu {mu:g} " in reason
    assert "inf" not in reason.replace("infinite", "")
    advised = float(reason.split("Try: mu ")[1].split()[0])  # the only advice
    assert measured(network, mu=advised)[1] == []


def test_scalars_agree_with_float64_at_a_good_mu(network):
    assert measured(network, mu=1e-5)[0]["scalars"] < 0.05


def test_the_forecast_is_what_gradient_descent_would_win_to_first_order(network):
    found, _, _ = measured(network, lr=1e-4, rounds=2000)
    report = preflight(network, ALLOCATION, ROWS, Settings(seq_len=16, lr=1e-4, rounds=2000, estimator="cohort"))
    assert found["progress"] == pytest.approx(2000 * 1e-4 * report.rho_rms**2)


def test_weights_without_a_finite_derivative_are_refused(network):
    kept = network.block_weights(0).clone()
    network.block_weights(0)[:] = math.nan
    try:
        assert {"scalars", "update", "stride"} <= set(measured(network)[1])
    finally:
        network.block_weights(0).copy_(kept)


def test_measuring_leaves_the_weights_bit_for_bit(network):
    before = network.weights_sha256()
    measured(network)
    assert network.weights_sha256() == before


@pytest.mark.parametrize("estimator", ["exact", "cohort"])
def test_finite_differences_are_compared_with_exact_scalars_whichever_of_them_the_run_takes(network, estimator):
    checked, far = (
        preflight(network, ALLOCATION, ROWS, Settings(seq_len=16, mu=mu, estimator=estimator)) for mu in (1e-3, 0.5)
    )
    assert 0 < checked.differences.relative_error < 0.2
    assert checked.differences.correlation > 0.98
    assert checked.describe()["finite_differences"]["mu"] == 1e-3
    assert far.differences.relative_error > 3 * checked.differences.relative_error
    assert ("scalars" in [check.name for check in far.checks]) == (estimator == "cohort")
