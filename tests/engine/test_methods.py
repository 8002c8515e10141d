"""DeComFL, FedZO and FedIT beside ZorBA: what each computes, and that fast ways agree with those written to be read."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from tests.engine.all_rounds import run_all, step
from zorba_core.allocation import Allocation
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.loop import LocalClients, Training, init, plan_round
from zorba_core.engine.methods.fedit import mean_gradient
from zorba_core.engine.methods.fedzo import client_seeds
from zorba_core.engine.methods.interface import Method
from zorba_core.engine.parts import METHODS
from zorba_core.engine.reports import STATUSES
from zorba_core.engine.round import FederatedRows, Step, client_batch
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError
from zorba_core.runs.preflight import preflight

FULL = Allocation(np.ones((3, 4), dtype=bool))
SETTINGS = Settings(rounds=4, num_seeds=16, batch_size=4, seq_len=8, eval_every=2, lr=1e-3)
BASELINES = ("decomfl", "fedzo", "fedit")


def of(method: str, **changes) -> Settings:
    return SETTINGS.replace(method=method, **{"directions": None, "estimator": None, **changes})


def weights(network: Blocks) -> list[torch.Tensor]:
    return [network.block_weights(m).clone() for m in range(network.num_blocks)]


def test_one_table_names_the_methods_everywhere():
    for name, method in METHODS.items():
        assert isinstance(method, Method)
        assert method.name == name
        assert method.title
        assert "\n" not in method.help


def test_the_number_of_directions_is_the_papers_unless_given():
    assert [of(method).directions for method in METHODS] == [10, 1, 1, 0]
    assert of("decomfl", directions=10).directions == 10
    assert of("fedzo", directions=3).replace(lr=1.0).directions == 3


def test_what_does_not_go_together_is_named(subtests):
    for fields, words in [
        ({"method": "fedavg"}, "method is 'fedavg'; choose one of zorba, decomfl, fedzo, fedit"),
        ({"method": "fedit", "directions": 3}, "directions is 3; fedit uses the gradient"),
        ({"method": "fedit", "estimator": "exact"}, "estimator is exact and fedit uses the gradient"),
        ({"method": "decomfl", "directions": 0}, "directions is 0; it must be at least 1"),
    ]:
        with subtests.test(fields=fields, words=words), pytest.raises(InvalidInputError, match=words):
            Settings(**fields)


def test_a_method_that_activates_all_blocks_refuses_an_allocation_of_some(new_network, rows, subtests):
    for method in BASELINES:
        says = f"method {method} activates every block of every client"
        with subtests.test(method=method), pytest.raises(InvalidInputError, match=says):
            run_all(new_network(), Allocation(np.eye(3, 4) + np.eye(3, 4, 1)), rows, of(method))


def test_two_runs_of_one_seed_are_bit_identical_and_another_seed_differs(new_network, rows, subtests):
    for method in BASELINES:
        with subtests.test(method=method):

            def fingerprint(seed: int, method=method) -> str:
                network = new_network()
                run_all(network, FULL, rows, of(method, seed=seed))
                return network.weights_sha256()

            assert fingerprint(0) == fingerprint(0) != fingerprint(1)


def test_decomfl_is_zorba_with_every_block_active(new_network, rows):
    ends = []
    for settings in (of("decomfl", directions=3), of("zorba", directions=3)):
        network = new_network()
        run_all(network, FULL, rows, settings)
        ends.append(network.weights_sha256())
    assert ends[0] == ends[1]


def test_every_method_sees_the_same_batches_so_their_first_losses_are_equal(new_network, rows):
    network, losses = new_network(dtype=torch.float64), {}
    for method in METHODS:
        settings = of(method)
        training = Training.local(network, FULL, rows, settings)
        losses[method] = LocalClients(rows).collect(plan_round(1, init(network, settings), training)).loss_N
    for method in BASELINES:
        assert losses[method] == pytest.approx(losses["zorba"], rel=1e-12)


def test_no_two_clients_of_fedzo_share_a_direction_and_none_is_a_shared_one():
    seeds_Q = np.array([7, 8, 2**32 - 1], dtype=np.uint32)
    own = [seed for n in range(50) for seed in client_seeds(seeds_Q, n)]
    assert len(set(own)) == 150
    assert min(own) >= 2**32  # of 64 bits: the shared seeds have 32
    assert client_seeds(seeds_Q, 3) == client_seeds(seeds_Q, 3)
    assert client_seeds(seeds_Q[1:], 3) == client_seeds(seeds_Q, 3)[1:]


def test_a_round_of_fedzo_averages_the_clients_own_estimates(new_network, rows):
    """w <- w - lr (1/N) sum_n (1/Q) sum_q rho[n, q] v_nq, each rho from the two losses that define it."""
    network, settings = new_network(dtype=torch.float64), of("fedzo", directions=2, mu=1e-4, estimator="cohort")
    before_M = weights(network)
    state, result = step(init(network, settings), network, FULL, rows, settings)
    after_M = weights(network)
    step_M = [torch.zeros_like(w) for w in before_M]
    for n in range(4):
        batch = client_batch(rows, settings, 1, n)

        def loss(batch=batch) -> float:
            return float(batch.losses(network, network(batch)).mean())

        for q, seed in enumerate(client_seeds(result.seeds_Q, n)):
            v_M = [state.directions.block(seed, m) for m in range(3)]
            losses = []
            for size in (settings.mu, 0.0):
                for m in range(3):
                    network.block_weights(m).copy_(before_M[m] + size * v_M[m])
                losses.append(loss())
            rho = (losses[0] - losses[1]) / settings.mu
            assert result.rho_NQ[n, q] == pytest.approx(rho, abs=1e-8)
            for m in range(3):
                step_M[m] += rho * v_M[m] / (4 * 2)
    for m in range(3):
        assert torch.allclose(after_M[m], before_M[m] - settings.lr * step_M[m], atol=1e-12)


def test_fedzo_by_the_cohort_and_by_the_reference_agree(new_network, rows, family):
    ends = []
    for estimator in ("reference", "cohort"):
        network = new_network(family, torch.float64)
        run_all(network, FULL, rows, of("fedzo", estimator=estimator))
        ends.append(torch.cat(weights(network)))
    assert torch.allclose(ends[0], ends[1], rtol=0, atol=1e-10)


def test_one_backward_pass_of_the_cohort_is_the_average_of_the_clients_gradients(new_network, rows, family):
    network = new_network(family, torch.float64)
    before = network.weights_sha256()
    rows.train.last_R[rows.held_N[0]] = 4
    batches = [client_batch(rows, SETTINGS, 1, n) for n in range(4)]
    assert len({batch.token_ids_RL.shape[1] for batch in batches}) > 1  # some are padded for the others' sake
    one_by_one = [mean_gradient(network, [batch]) for batch in batches]
    together = mean_gradient(network, batches)
    assert together[1] == pytest.approx([float(loss_N[0]) for _, loss_N, _ in one_by_one], rel=1e-12)
    for m, mean in enumerate(together[0]):
        expected = sum(mean_M[m] for mean_M, _, _ in one_by_one) / len(batches)
        assert torch.allclose(mean, expected, rtol=1e-9, atol=1e-12)
        assert float(expected.abs().max()) > 0
    assert network.weights_sha256() == before
    assert not any(parameter.requires_grad for parameter in network.model.parameters())


def test_what_a_method_may_not_answer_is_named(new_network, rows, monkeypatch):
    zorba, network = METHODS["zorba"], new_network()
    for answer, says in {
        "other seeds": "zorba steps along other seeds than the round's, plan.seeds_Q",
        "other shape": r"averages of shape \(1, 2\) in place of \(3, 2\)",
        "no state": "its state must map names to arrays of finite numbers",
        "text": "its state must map names to arrays of finite numbers",
        "nan": "its state must map names to arrays of finite numbers",
    }.items():
        state = {"no state": None, "text": {"a": "b"}, "nan": {"a": [np.nan]}}.get(answer, {})

        def update(plan, reports, reported_N, before, answer=answer, state=state):
            seeds_Q = plan.seeds_Q + 1 if answer == "other seeds" else plan.seeds_Q
            return Step(np.ones((1 if answer == "other shape" else 3, 2)), seeds_Q), state

        monkeypatch.setattr(zorba, "update", update, raising=False)
        settings = of("zorba", directions=2)
        with pytest.raises(InvalidInputError, match=says):
            step(init(network, settings), network, FULL, rows, settings)


def test_each_method_learns_that_one_answer_is_always_right(new_network, rows, subtests):
    for method in BASELINES:
        with subtests.test(method=method):
            always_1 = dataclasses.replace(rows.train, label_E=torch.ones_like(rows.train.label_E))
            rows = FederatedRows(always_1, rows.held_N, always_1)
            lr = 0.3 if method == "fedit" else 3e-2
            rounds = run_all(new_network(), FULL, rows, of(method, rounds=20, num_seeds=512, eval_every=20, lr=lr))
            assert rounds[-1].eval_loss < 0.8 * rounds[0].eval_loss


@pytest.mark.parametrize("method", BASELINES)
def test_a_broken_client_is_left_out_and_the_round_is_that_of_the_others(poisoned, rows, new_network, method):
    network, with_poison = poisoned
    settings = of(method, estimator="cohort")
    _, result = step(init(network, settings), network, FULL, with_poison, settings)
    assert [STATUSES[code] for code in result.status_N] == ["reported", "reported", "non-finite", "reported"]
    if method == "fedit":  # the mean of the others' gradients
        three, batches = new_network(), [client_batch(rows, settings, 1, n) for n in (0, 1, 3)]
        for m, mean in enumerate(mean_gradient(three, batches)[0]):
            wanted = three.block_weights(m) - settings.lr * mean
            assert torch.allclose(network.block_weights(m), wanted, atol=1e-7)
    assert all(bool(torch.isfinite(network.block_weights(m)).all()) for m in range(3))


@pytest.mark.slow
def test_preflight_measures_the_step_that_each_method_takes(new_network, rows):
    network = new_network()
    before = network.weights_sha256()
    for method in METHODS:
        settings = of(method, lr=1e-4, estimator="cohort")
        found = {check.name: check.measured for check in preflight(network, FULL, rows, settings).checks}
        assert ("scalars" in found) == (method != "fedit")
        start = weights(network)
        strides = []
        for seed in range(12):
            again = settings.replace(seed=seed)
            step(init(network, again), network, FULL, rows, again)
            moved = torch.cat(weights(network)) - torch.cat(start)
            strides.append(float(moved.norm() / torch.cat(start)[moved != 0].norm()))
            for m, kept in enumerate(start):
                network.block_weights(m).copy_(kept)
        assert 0.5 < found["stride"] / np.sqrt(np.mean(np.square(strides))) < 2, method  # of two clients in one round
    assert network.weights_sha256() == before
