"""FedKSeed, HiSo, MEERKAT and ZorBA with own directions: a round of each written out, resumed, replayed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from tests.engine.test_methods import FULL, rows, rows_of_two_kinds, weights  # noqa: F401
from tests.runs.resumable import After4
from zorba_core.allocation import Allocation
from zorba_core.engine.aggregation import average_per_block
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.reference import batch_loss
from zorba_core.engine.loop import init, repeat_round, step
from zorba_core.engine.methods.fedkseed import local_seeds
from zorba_core.engine.methods.meerkat import most_sensitive, own_text, squared_gradient
from zorba_core.engine.methods.registry import method_of
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.rounds import FederatedRows, client_batch
from zorba_core.engine.settings import TrainSettings
from zorba_core.errors import InvalidInputError
from zorba_core.planning.communication import numbers_a_round, run_communication
from zorba_core.runs.preflight import preflight
from zorba_core.runs.resume import replay, resume
from zorba_core.runs.session import fine_tune

SETTINGS = TrainSettings(rounds=4, num_seeds=16, batch_size=4, seq_len=8, eval_every=2, lr=1e-2, dtype="float64")
NEW = ("fedkseed", "hiso", "meerkat", "zorba-own")


def of(method: str, **changes) -> TrainSettings:
    return dataclasses.replace(SETTINGS.for_method(method, 3), **changes)


@pytest.fixture
def new_network(make_tiny_model):
    return lambda dtype=torch.float64: BlockNetwork(make_tiny_model("opt"), [70, 71], dtype=dtype)


def moved(network, before_M, seeds_and_sizes, directions, scale_M=None) -> list[torch.Tensor]:
    """before_M + the sum of size * v, times scale: dense, by whole directions."""
    after_M = []
    for m, before in enumerate(before_M):
        step = sum(size * directions.block(int(seed), m) for seed, size in seeds_and_sizes)
        after_M.append(before + (step if scale_M is None else step * scale_M[m]))
    return after_M


def put(network, weights_M) -> None:
    for m, given in enumerate(weights_M):
        network.block_weights(m).copy_(given)


def test_a_round_of_hiso_scales_directions_by_the_curvature_that_its_own_steps_teach(new_network, rows):  # noqa: F811
    network, settings = new_network(), of("hiso", mu=1e-6, curvature_rate=0.3)
    plain = Directions("gaussian", network.shapes_M, dtype=torch.float64)
    curvature_M = [torch.ones(size, dtype=torch.float64) for size in network.sizes_M]
    state = init(network, settings)
    for t in (1, 2, 3):
        before_M, scale_M = weights(network), [h.rsqrt() for h in curvature_M]
        state, result = step(state, network, FULL, rows, settings)
        after_M = weights(network)
        for n in range(4):  # each scalar is that of the scaled direction
            batch = client_batch(rows, settings, t, n)
            put(network, before_M)
            at = batch_loss(network, batch)
            put(network, moved(network, before_M, [(result.seeds_Q[0], settings.mu)], plain, scale_M))
            assert (batch_loss(network, batch) - at) / settings.mu == pytest.approx(result.rho_NQ[n, 0], abs=1e-6)
        rho_bar_Q = average_per_block(result.rho_NQ, FULL.A_MN)[0]
        steps = list(zip(result.seeds_Q, -settings.lr * rho_bar_Q, strict=True))
        expected_M = moved(network, before_M, steps, plain, scale_M)
        for m in range(3):
            assert torch.allclose(after_M[m], expected_M[m], rtol=0, atol=1e-12)
            dx = (before_M[m] - after_M[m]) / settings.lr
            curvature_M[m] = 0.7 * curvature_M[m] + 0.3 * dx.square()
        put(network, after_M)
    for m in range(3):
        assert torch.allclose(state.directions.learned_M[m], curvature_M[m].rsqrt(), rtol=1e-9)
    assert float(curvature_M[0].std()) > 0.01


def test_meerkat_moves_the_most_sensitive_weights_and_no_others(new_network, rows):  # noqa: F811
    network, settings = new_network(), of("meerkat", density=0.02)
    before_M = weights(network)
    square_M = squared_gradient(network, own_text(network))
    mask_M = most_sensitive(square_M, 0.02)
    assert sum(int(mask.sum()) for mask in mask_M) == round(0.02 * sum(network.sizes_M))
    least = min(float(square[mask].min()) for square, mask in zip(square_M, mask_M, strict=True) if mask.any())
    assert least >= max(float(square[~mask].max()) for square, mask in zip(square_M, mask_M, strict=True))
    assert network.weights_sha256() == new_network().weights_sha256()
    assert not any(parameter.requires_grad for parameter in network.model.parameters())
    _, result = step(init(network, settings), network, FULL, rows, settings)
    for m in range(3):
        assert torch.equal(weights(network)[m] != before_M[m], mask_M[m])
    plain = Directions("gaussian", network.shapes_M, dtype=torch.float64)
    rho_bar_Q = average_per_block(result.rho_NQ, FULL.A_MN)[0]
    steps = list(zip(result.seeds_Q, -settings.lr * rho_bar_Q, strict=True))
    expected_M = moved(network, before_M, steps, plain, [mask.double() for mask in mask_M])
    assert all(torch.allclose(weights(network)[m], expected_M[m], rtol=0, atol=1e-12) for m in range(3))


def test_a_round_of_own_directions_averages_each_block_over_its_clients(new_network, rows):  # noqa: F811
    """w_m <- w_m - lr sum_n (a_mn / c_m) (1/Q) sum_q rho[n, q] s_m v_nq,m; each rho from two losses."""
    allocation = Allocation([[1, 0, 1, 0], [1, 1, 0, 0], [0, 1, 1, 1]])
    network, scale_M = new_network(), (1.0, 2.0, 0.5)
    settings = of("zorba-own", mu=1e-6, block_scales=",".join(map(str, scale_M)))
    before_M = weights(network)
    seeds_P = init(network, settings).seeds_P
    _, result = step(init(network, settings), network, allocation, rows, settings)
    after_M = weights(network)
    seeds_U = method_of(settings).update_seeds(settings, 1, result.seeds_Q, 4)
    assert len(set(seeds_U.tolist())) == 4 * 3
    assert set(seeds_U.tolist()) <= set(seeds_P.tolist())
    directions = Directions("gaussian", network.shapes_M, dtype=torch.float64)
    step_M = [torch.zeros_like(before) for before in before_M]
    for n in range(4):
        batch, active_M = client_batch(rows, settings, 1, n), allocation.A_MN[:, n]
        for q, seed in enumerate(seeds_U.reshape(4, 3)[n]):
            v_M = [length * directions.block(int(seed), m) for m, length in enumerate(scale_M)]
            put(network, before_M)
            at = batch_loss(network, batch, active_M)
            put(network, [w + settings.mu * v * bool(a) for w, v, a in zip(before_M, v_M, active_M, strict=True)])
            rho = (batch_loss(network, batch, active_M) - at) / settings.mu
            assert result.rho_NQ[n, q] == pytest.approx(rho, abs=1e-5)
            for m in np.flatnonzero(active_M):
                step_M[m] += rho * v_M[m] / (allocation.A_MN[m].sum() * 3)
    for after, before, moved_by in zip(after_M, before_M, step_M, strict=True):
        assert torch.allclose(after, before - settings.lr * moved_by, rtol=0, atol=1e-6)
    assert result.forward_passes == 4 * (3 + 1)


def test_own_directions_repeat_only_where_there_are_too_few_seeds():
    settings = of("zorba-own", num_seeds=16)
    drawn = [method_of(settings).client_seeds(settings, t, np.zeros(3, np.uint32), 4) for t in (1, 2, 1)]
    assert len(np.unique(drawn[0])) == 12
    assert (drawn[0] == drawn[2]).all()
    assert (drawn[0] != drawn[1]).any()
    more = method_of(settings).client_seeds(settings, 1, np.zeros(3, np.uint32), 9)
    assert (more[:4] == drawn[0]).all()
    assert np.unique(more[:5]).size == 15
    assert (more.ravel()[16:] == more.ravel()[:11]).all()


def test_own_directions_leave_less_noise_where_clients_agree(new_network, rows):  # noqa: F811
    """Clients with the same rows know one gradient: shared directions show it along three lines, own ones twelve."""
    same = FederatedRows(rows.train, {n: np.arange(4) for n in range(4)}, rows.evaluation)
    spread = {}
    for method in ("zorba", "zorba-own"):
        steps = []
        for seed in range(20):
            network, settings = new_network(), of(method, seed=seed, num_seeds=4096, estimator="exact", lr=1.0)
            before = torch.cat(weights(network))
            step(init(network, settings), network, FULL, same, settings)
            steps.append(before - torch.cat(weights(network)))
        spread[method] = float(torch.stack(steps).var(dim=0).sum())
    assert spread["zorba-own"] == pytest.approx(spread["zorba"] / 4, rel=0.5)


def test_the_text_that_the_base_writes_is_likely_to_it(new_network):
    network = new_network()
    text_RL = own_text(network)
    assert torch.equal(text_RL, own_text(new_network()))
    logits = network.model(input_ids=text_RL).logits[:, :-1].double().log_softmax(dim=-1)
    written = logits.gather(2, text_RL[:, 1:, None]).mean()
    uniform = torch.randint(0, 400, text_RL[:, 1:, None].shape, generator=torch.Generator().manual_seed(0))
    assert float(written) > float(logits.gather(2, uniform).mean()) + 0.1


def test_a_round_of_fedkseed_adds_up_the_clients_own_steps(new_network, rows):  # noqa: F811
    """Each client walks from the shared weights along seeds of its own, and the walks are averaged."""
    network, settings = new_network(), of("fedkseed", mu=1e-6)
    before_M = weights(network)
    candidates = set(init(network, settings).seeds_P.tolist())
    _, result = step(init(network, settings), network, FULL, rows, settings)
    after_M = weights(network)
    directions = Directions("gaussian", network.shapes_M, dtype=torch.float64)
    all_steps = []
    for n in range(4):
        seeds = local_seeds(settings, 1, n)
        assert set(seeds.tolist()) <= candidates
        own_M = before_M
        for j, seed in enumerate(seeds):
            batch = client_batch(rows, settings, 1, n, step=j)
            put(network, own_M)
            at = batch_loss(network, batch)
            put(network, moved(network, own_M, [(seed, settings.mu)], directions))
            rho = (batch_loss(network, batch) - at) / settings.mu
            assert result.rho_NQ[n, j] == pytest.approx(rho, abs=1e-5)
            own_M = moved(network, own_M, [(seed, -settings.lr * rho)], directions)
            all_steps.append((seed, -settings.lr * rho / 4))
    expected_M = moved(network, before_M, all_steps, directions)
    assert all(torch.allclose(after_M[m], expected_M[m], rtol=0, atol=1e-6) for m in range(3))
    assert result.forward_passes == 4 * 3 * 2
    assert len({tuple(local_seeds(settings, 1, n)) for n in range(4)}) == 4


@pytest.mark.parametrize("method", NEW)
@pytest.mark.parametrize("estimator", ["reference", "exact"])
def test_their_rounds_are_repeated_from_scalars_alone_and_estimators_agree(new_network, rows, method, estimator):  # noqa: F811
    settings, ends = of(method, mu=1e-6), []
    network, beside = new_network(), new_network()
    state, other = init(network, settings), init(beside, settings)
    with_other = new_network()
    third, how = init(with_other, settings), dataclasses.replace(settings, estimator=estimator)
    for _ in range(3):
        state, result = step(state, network, FULL, rows, settings)
        other = repeat_round(other, result, beside, FULL, settings)
        third, _ = step(third, with_other, FULL, rows, how)
        ends = [weights(each) for each in (network, beside, with_other)]
    assert all(torch.equal(a, b) for a, b in zip(ends[0], ends[1], strict=True))
    # A difference over a kink of the activation is not the derivative there.
    assert all(torch.allclose(a, b, rtol=0, atol=1e-3) for a, b in zip(ends[0], ends[2], strict=True))
    assert not torch.allclose(ends[0][0], weights(new_network())[0], rtol=0, atol=1e-3)
    assert {check.name for check in preflight(network, FULL, rows, settings).checks} >= {"stride", "progress"}


@pytest.mark.usefixtures("rows_divided_once")
@pytest.mark.parametrize("method", NEW)
@pytest.mark.slow
def test_their_runs_are_resumed_and_replayed_to_the_same_bits(tiny_opt_folder, tmp_path, method):
    settings = TrainSettings(
        rounds=7, num_seeds=32, batch_size=2, seq_len=24, eval_every=3, eval_rows=8, participation=0.7
    ).for_method(method, 2)
    who = {"allocation": Allocation(FULL.A_MN[:, :3])} if method == "zorba-own" else {"num_clients": 3}
    whole, half = (
        fine_tune(
            **who,
            model=tiny_opt_folder,
            settings=settings,
            runs_folder=tmp_path / name,
            force=True,
            callbacks=callbacks,
        )
        for name, callbacks in (("whole", []), ("half", [After4()]))
    )
    assert half.summary["rounds_done"] == 4
    assert resume(half.path).summary["weights_sha256"] == whole.summary["weights_sha256"]
    assert replay(whole.path).network.weights_sha256() == whole.summary["weights_sha256"]


def test_the_ledger_counts_what_each_protocol_sends():
    full = np.ones((12, 5), bool)
    options = {"rounds": 10, "reports": 50, "num_directions": 4, "num_seeds": 64}
    plain, hiso = (run_communication(method, full, **options) for method in ("decomfl", "hiso"))
    assert [part.wire_bytes for part in plain.messages] == [part.wire_bytes for part in hiso.messages]
    masked = run_communication("meerkat", full, **options, block_parameters=50_000, density=1e-3)
    assert masked.total("needed") - hiso.total("needed") == 5 * 50
    assert masked.total("wire_bytes") - hiso.total("wire_bytes") == 5 * 50 * 4
    picked = run_communication("fedkseed", full, **options)
    assert (picked.total("paper", "up"), picked.total("needed", "up")) == (50 * 2 * 4, 50 * 2 * 4)
    assert picked.total("wire_bytes", "up") == 50 * (4 + 8 + 4 * 8 + 4 * 2)
    assert picked.form == "scalars"  # 5 clients' 4 pairs a round are fewer than 64 sums
    assert picked.total("needed", "down") == 5 * 50 * 2 * 4
    few = run_communication("fedkseed", full, **{**options, "num_seeds": 16})
    assert (few.form, few.total("needed", "down"), few.total("paper", "down")) == ("averages", 800, 800 + 80)
    assert numbers_a_round("fedkseed", 5, 12, 4, 0) == (8, 2 * 25 * 4)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"method": "decomfl", "density": 0.1},
            "density is 0.1 and the method is decomfl; leave it out, or use meerkat",
        ),
        ({"curvature_rate": 0.5}, "curvature_rate is 0.5 and the method is zorba; leave it out, or use hiso"),
        ({"method": "hiso", "direction": "low-rank"}, "direction low-rank moves along products"),
        ({"method": "fedkseed", "step": "normalised"}, "step is normalised and fedkseed's scalars share no directions"),
    ],
)
def test_what_does_not_go_together_is_named(fields, says):
    with pytest.raises(InvalidInputError, match=says):
        TrainSettings(**fields)
