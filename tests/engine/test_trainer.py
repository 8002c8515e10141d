from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from tests.engine.all_rounds import run_all, step
from zorba_core.allocation import Allocation
from zorba_core.engine.evaluation import choose_rows
from zorba_core.engine.loop import init
from zorba_core.engine.reports import STATUSES
from zorba_core.engine.round import FederatedRows
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, RunError

A_MN = np.array([[1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]], dtype=bool)
SETTINGS = Settings(
    rounds=4, directions=3, num_seeds=16, batch_size=4, seq_len=8, eval_every=2, lr=1e-3, estimator="cohort"
)


def test_two_runs_of_one_seed_are_bit_identical_and_another_seed_differs(new_network, rows):
    def fingerprint(seed: int) -> str:
        network = new_network()
        run_all(network, Allocation(A_MN), rows, SETTINGS.replace(seed=seed))
        return network.weights_sha256()

    assert fingerprint(0) == fingerprint(0)
    assert fingerprint(0) != fingerprint(1)


def test_a_block_that_nobody_activates_keeps_its_weights(new_network, rows):
    A = A_MN.copy()
    A[1] = False
    A[0] = True
    network = new_network()
    before_M = [network.block_weights(m).clone() for m in range(3)]
    run_all(network, Allocation(A), rows, SETTINGS)
    changed = [not torch.equal(before_M[m], network.block_weights(m)) for m in range(3)]
    assert changed == [True, False, True]


def test_only_blocks_are_fine_tuned(new_network, rows):
    network = new_network()
    outside = {k: v.clone() for k, v in network.model.named_parameters() if ".layers." not in k}
    run_all(network, Allocation(A_MN), rows, SETTINGS)
    assert all(torch.equal(v, outside[k]) for k, v in network.model.named_parameters() if k in outside)


def test_a_round_is_the_equations_of_the_paper(new_network, rows):
    """w_m <- w_m - lr (1/Q) sum_n (a_mn / c_m) sum_q rho[n, q] v_q,m, from what the round reports."""
    network = new_network(dtype=torch.float64)
    before_M = [network.block_weights(m).clone() for m in range(3)]
    state, result = step(init(network, SETTINGS), network, Allocation(A_MN), rows, SETTINGS)
    for m in range(3):
        clients = np.flatnonzero(A_MN[m])
        gradient = sum(
            result.rho_NQ[n, q] * state.directions.block(int(seed), m) / len(clients) / 3
            for n in clients
            for q, seed in enumerate(result.seeds_Q)
        )
        assert torch.allclose(network.block_weights(m), before_M[m] - 1e-3 * gradient, atol=1e-12)


def test_seeds_are_all_different_and_a_round_repeats_none(new_network, rows):
    network = new_network()
    settings = SETTINGS.replace(num_seeds=2000, directions=100, batch_size=1)
    state = init(network, settings)
    assert len(set(state.seeds_P.tolist())) == 2000
    one_client = FederatedRows(rows.train, rows.held_N[:1], rows.evaluation)
    after, first = step(state, network, Allocation(A_MN[:, :1] | True), one_client, settings)
    _, second = step(after, network, Allocation(A_MN[:, :1] | True), one_client, settings)
    assert len(set(first.seeds_Q.tolist())) == 100
    assert set(first.seeds_Q.tolist()) <= set(state.seeds_P.tolist())
    assert set(first.seeds_Q.tolist()) != set(second.seeds_Q.tolist())


def test_rounds_count_what_was_computed_and_sent(new_network, rows):
    rounds = run_all(new_network(), Allocation(A_MN), rows, SETTINGS)
    assert [done.round for done in rounds] == [0, 1, 2, 3, 4]
    assert [done.eval_accuracy is not None for done in rounds] == [True, False, True, False, True]
    for done in rounds[1:]:
        assert done.forward_passes == 4 * (1 + 3)  # clients x (base + Q)
        assert done.scalars_up == 4 * 3  # clients x Q
        assert done.scalars_down == 4 * (3 + 1) * 3  # clients x (an average for each block, and the seed) x Q


def test_the_run_ends_at_its_target(new_network, rows):
    always_1 = dataclasses.replace(rows.train, label_E=torch.ones_like(rows.train.label_E))
    rows = FederatedRows(always_1, rows.held_N, always_1)
    settings = SETTINGS.replace(rounds=60, directions=8, num_seeds=512, target=1.0, lr=2e-2)
    rounds = run_all(new_network(), Allocation(A_MN), rows, settings)
    assert 0 < rounds[-1].round < 60
    accuracies = [done.eval_accuracy for done in rounds if done.eval_accuracy is not None]
    assert accuracies[-1] == 1.0
    assert max(accuracies[:-1]) < 1.0


def test_a_run_whose_every_step_is_out_of_bounds_ends_with_the_base_model(new_network, rows):
    network = new_network()
    base = network.weights_sha256()
    rounds = run_all(network, Allocation(A_MN), rows, SETTINGS.replace(lr=1e30, eval_every=4))
    assert any(done.diverged for done in rounds)
    assert rounds[-1].round == 4
    assert network.weights_sha256() == base


def test_a_run_in_which_no_client_ever_has_a_finite_loss_stops_with_the_round(new_network, rows):
    network = new_network()
    with torch.no_grad():
        network.model.model.decoder.embed_tokens.weight[30:60] = torch.inf  # tokens of the clients' rows
    rows = dataclasses.replace(
        rows, evaluation=dataclasses.replace(rows.evaluation, token_ids_RL=rows.evaluation.token_ids_RL + 100)
    )
    says = r"round 1: 4 of 4 clients without a usable report \(4 non-finite; first client 0\)"
    with pytest.raises(RunError, match=says):
        run_all(network, Allocation(A_MN), rows, SETTINGS)


def test_what_does_not_fit_together_is_refused(new_network, rows, subtests):
    for change, words in [
        ({"allocation": Allocation(np.ones((2, 4)))}, "2 blocks and the model has 3"),
        ({"allocation": Allocation(np.ones((3, 5)))}, "5 clients and the data for 4"),
        ({"settings": SETTINGS.replace(seq_len=65)}, "65 and the model has 64 positions"),
    ]:
        with subtests.test(change=change, words=words):
            request = {"allocation": Allocation(A_MN), "rows": rows, "settings": SETTINGS, **change}
            with pytest.raises(InvalidInputError, match=words):
                run_all(new_network(), **request)


def test_a_subset_of_evaluation_rows_is_fixed_by_the_seed():
    chosen = choose_rows(500, 40, seed=3)
    assert np.array_equal(chosen, choose_rows(500, 40, seed=3))
    assert not np.array_equal(chosen, choose_rows(500, 40, seed=4))
    assert len(set(chosen.tolist())) == 40
    assert np.array_equal(choose_rows(5, 40, seed=3), np.arange(5))


@pytest.mark.parametrize("estimator", ["cohort", "reference"])
def test_a_client_without_a_finite_loss_is_refused_and_the_round_is_that_of_the_others(poisoned, rows, estimator):
    """The same round as if the client had not been there at all, and a block that only it activates stays."""
    network, with_poison = poisoned
    A = A_MN.copy()
    A[2] = [0, 0, 1, 0]  # the last block is client 2's alone
    settings = SETTINGS.replace(rounds=1, estimator=estimator)
    before_M = [network.block_weights(m).clone() for m in range(3)]
    state, result = step(init(network, settings), network, Allocation(A), with_poison, settings)
    assert [STATUSES[code] for code in result.status_N] == ["reported", "reported", "non-finite", "reported"]
    assert torch.equal(network.block_weights(2), before_M[2])
    others = result.status_N == 0
    for m in range(2):
        clients = np.flatnonzero(A[m] & others)
        gradient = sum(
            float(result.rho_NQ[n, q]) * state.directions.block(int(seed), m) / len(clients) / 3
            for n in clients
            for q, seed in enumerate(result.seeds_Q)
        )
        moved = before_M[m] - network.block_weights(m)
        assert len(clients) >= 1
        assert torch.allclose(moved, 1e-3 * gradient, atol=1e-7)


def test_a_run_whose_evaluation_is_not_finite_fails_with_the_round(new_network, rows):
    network = new_network()
    network.block_weights(1)[:] = torch.nan
    with pytest.raises(RunError, match=r"round 0: the base model's loss is not finite"):
        run_all(network, Allocation(A_MN), rows, SETTINGS)


def test_only_the_clients_that_are_asked_compute_and_send(new_network, rows):
    settings = SETTINGS.replace(participation=0.5, rounds=6)
    rounds = run_all(new_network(), Allocation(A_MN), rows, settings)[1:]
    asked = np.array([done.reported_N for done in rounds])
    assert asked.sum(axis=1).tolist() == [2] * 6
    assert len({tuple(row) for row in asked}) > 1
    assert all((done.rho_NQ[~done.reported_N] == 0).all() for done in rounds)
    assert {(done.forward_passes, done.scalars_up) for done in rounds} == {(2 * (1 + 3), 2 * 3)}


def test_every_estimator_trains(new_network, rows, subtests):
    for estimator in ["cohort", "reference", "exact"]:
        with subtests.test(estimator=estimator):
            always_1 = dataclasses.replace(rows.train, label_E=torch.ones_like(rows.train.label_E))
            settings = SETTINGS.replace(rounds=5, directions=8, num_seeds=64, eval_every=5, lr=1e-2)
            settings = settings.replace(estimator=estimator)
            rounds = run_all(new_network(), Allocation(A_MN), FederatedRows(always_1, rows.held_N, always_1), settings)
            assert rounds[-1].eval_loss < rounds[0].eval_loss
