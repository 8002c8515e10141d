"""What a CUDA device has to share with the CPU: bits of noise, scalars, trajectories and the memory that was derived.

Skipped where PyTorch sees no CUDA device. Agreement is asked for in float64, where kernels that add in another order
differ by 1e-13 or so before the difference of two losses magnifies it by 1 / mu.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from tests.engine.forward_mode import estimate_jvp
from tests.engine.test_cohort import MU, SEEDS, batches
from tests.runs.resumable import ALLOCATION, SETTINGS, assert_ends_alike, interrupted, resume
from zorba_core.engine import noise
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.estimators.exact import estimate_exact
from zorba_core.engine.estimators.reference import estimate
from zorba_core.engine.methods.zorba import average_per_block
from zorba_core.engine.parts import DIRECTIONS
from zorba_core.engine.rows import Rows
from zorba_core.engine.update import update_blocks
from zorba_core.runs.replay import replay
from zorba_core.runs.train import fine_tune

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

LENGTHS = (6, 7, 20, 20, 13, 20, 7, 6, 9)  # of nine clients' rows


def nine_batches(device: str | torch.device) -> list[Rows]:
    return [rows.to(device) for rows in batches(9, lengths=LENGTHS)]


def networks(model: torch.nn.Module, dtype: torch.dtype = torch.float64) -> tuple[Blocks, Blocks]:
    return tuple(Blocks(copy.deepcopy(model), dtype=dtype, device=device) for device in ("cpu", "cuda"))


def allocation(num_blocks: int = 4, num_clients: int = 9) -> np.ndarray:
    return np.random.default_rng(0).random((num_blocks, num_clients)) < 0.5


def assert_near(found: np.ndarray, wanted: np.ndarray, tolerance: float) -> None:
    scale = np.abs(wanted).max()
    assert scale > 0.1
    assert np.abs(found - wanted).max() <= tolerance * scale


def test_triton_draws_the_noise():
    assert noise.triton_on("cuda") is not None


def test_noise_has_the_cpus_bits(subtests):
    for seed, block in [(0, 0), (2**32 - 1, 11), (2**63 + 5, 1)]:
        for draw in [noise.signs, noise.normals]:
            with subtests.test(seed=seed, block=block, draw=draw):
                for start, stop in [(0, 1), (7, 9), (255, 700), (0, 300_000), (2**33 + 5, 2**33 + 300), (13, 13)]:
                    assert torch.equal(draw(seed, block, start, stop, "cuda").cpu(), draw(seed, block, start, stop))


def test_every_direction_moves_weights_to_the_cpus_bits(subtests):
    for kind in DIRECTIONS:
        with subtests.test(kind=kind):
            shapes = [((300, 200), (300,)), ((70, 30),)]
            here, there = (Directions(kind, shapes, device=device) for device in ("cpu", "cuda"))
            for block, size in enumerate(here.sizes_M):
                assert torch.equal(there.block(9, block).cpu(), here.block(9, block))
                weights = torch.linspace(-1, 1, size)
                on_device = weights.cuda()
                here.add_to(weights, 9, block, MU)
                there.add_to(on_device, 9, block, MU)
                assert torch.equal(on_device.cpu(), weights)


def test_the_cohort_has_the_references_scalars_and_the_cpus(family, make_tiny_model, subtests):
    for inactive in ["frozen", "dropped"]:
        for kind in ["gaussian", "low-rank"]:
            with subtests.test(inactive=inactive, kind=kind):
                on_cpu, on_cuda = networks(make_tiny_model(family, num_blocks=4))
                A_MN = allocation()
                for network in (on_cpu, on_cuda):
                    directions = Directions(kind, network.shapes_M, dtype=network.dtype, device=network.device)
                    rows = nine_batches(network.device)
                    found = estimate_cohort(network, rows, A_MN, SEEDS, directions, mu=MU, inactive=inactive)
                    wanted = estimate(network, rows, A_MN, SEEDS, directions, mu=MU, inactive=inactive)
                    assert_near(found.rho_NQ, wanted.rho_NQ, 1e-9)
                    if network is on_cpu:
                        first = found
                # Llama computes norms and rotations in float32, each device in its own order: 1e-8 of a loss, over mu.
                assert_near(found.rho_NQ, first.rho_NQ, 1e-4 if family == "llama" else 1e-9)


def test_exact_scalars_are_forward_modes(family, make_tiny_model, subtests):
    for inactive in ["frozen", "dropped"]:
        for kind in ["rademacher", "low-rank"]:
            with subtests.test(inactive=inactive, kind=kind):
                _, network = networks(make_tiny_model(family, num_blocks=4))
                directions = Directions(kind, network.shapes_M, dtype=network.dtype, device="cuda")
                before = network.weights_sha256()
                on_card = estimate_exact(
                    network, nine_batches("cuda"), allocation(), SEEDS, directions, mu=MU, inactive=inactive
                )
                wanted = estimate_jvp(
                    network, nine_batches("cuda"), allocation(), SEEDS, directions, mu=MU, inactive=inactive
                )
                # Llama's norms compute in float32 whatever they are given.
                assert_near(on_card.rho_NQ, wanted.rho_NQ, 1e-5 if family == "llama" else 1e-10)
                assert network.weights_sha256() == before


def test_a_step_has_the_cpus_bits(make_tiny_model):
    rho_bar_MQ = average_per_block(np.random.default_rng(3).normal(size=(9, 2)), allocation())
    digests = []
    for network in networks(make_tiny_model("opt", num_blocks=4), torch.float32):
        for kind in ("rademacher", "gaussian", "low-rank"):
            directions = Directions(kind, network.shapes_M, device=network.device)
            update_blocks(network, rho_bar_MQ, SEEDS, directions, 1e-2)
        digests.append(network.weights_sha256())
    assert digests[0] == digests[1]


@pytest.mark.parametrize("estimator", ["cohort", "exact"])
def test_a_run_repeats_its_bits_and_resumes_and_replays_to_them(tiny_opt_folder, tmp_path, estimator):
    settings = SETTINGS.replace(device="cuda", estimator=estimator)
    request = {"model": tiny_opt_folder, "settings": settings}
    whole, again = (fine_tune(ALLOCATION, **request, runs_folder=tmp_path / name) for name in ("whole", "again"))
    assert_ends_alike(again, whole)
    half = interrupted(tmp_path / "half", **request)
    assert half.rounds_done == 4
    assert_ends_alike(resume(half), whole)
    assert replay(whole.path).network.weights_sha256() == whole.summary["weights_sha256"]


@pytest.mark.parametrize("method", ["fedit", "fedzo", "decomfl"])
def test_every_method_runs_and_repeats_its_bits(tiny_opt_folder, tmp_path, method):
    settings = SETTINGS.replace(method=method, directions=None, estimator=None, device="cuda", rounds=3)
    request = {"num_clients": 3, "model": tiny_opt_folder, "settings": settings, "force": True}
    first, again = (fine_tune(**request, runs_folder=tmp_path / name) for name in ("first", "again"))
    assert_ends_alike(again, first)
