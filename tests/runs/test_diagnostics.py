"""Gradients measured beside a run: what they are, what they should come to, and that the run does not notice."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.damage import call, check_refused
from tests.engine.test_cohort import batches, random_allocation
from tests.runs.resumable import ALLOCATION, SETTINGS, After4, copy_of
from tests.test_checksums import noticed_or_unchanged
from zorba_core.allocation import Allocation
from zorba_core.allocation.measures import coupled_noise
from zorba_core.checksums import read_sealed
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.exact import estimate_exact
from zorba_core.engine.methods.first_order import gradient_reference
from zorba_core.engine.network import BlockNetwork
from zorba_core.errors import InvalidInputError
from zorba_core.planning import gradient_plan
from zorba_core.runs import read_run
from zorba_core.runs.diagnostics import DIAGNOSTICS, Measured, write_measured
from zorba_core.runs.diagnostics.gradients import gradient_products
from zorba_core.runs.resume import resume
from zorba_core.runs.session import fine_tune
from zorba_core.study.verify import verify_folder


@pytest.mark.parametrize("least_bytes", [0, 2**25])
def test_the_products_are_those_of_gradients_taken_one_client_after_another(make_tiny_model, monkeypatch, least_bytes):
    monkeypatch.setattr(
        gradient_plan, "LEAST_BYTES", least_bytes
    )  # 0: several groups of blocks, several pieces of clients
    network = BlockNetwork(make_tiny_model("opt", num_blocks=4), [11, 250, 3], dtype=torch.float64)
    batches_N = batches(30)
    product_MNN, loss_N = gradient_products(network, batches_N)
    gradient_NM = [gradient_reference(network, [batch]) for batch in batches_N]
    assert loss_N == pytest.approx([gradient.loss_N[0] for gradient in gradient_NM])
    for m in range(4):
        gradient_ND = torch.stack([gradient.sum_M[m] for gradient in gradient_NM])
        expected = (gradient_ND @ gradient_ND.t()).numpy()
        assert np.abs(product_MNN[m] - expected).max() <= 1e-12 * np.abs(expected).max()


def test_a_block_whose_clients_scalars_are_averaged_has_the_second_moment_that_is_measured(make_tiny_model):
    """Over directions, E rho_bar^2 = sum_m' |sum_n a_mn a_m'n / c_m g_nm'|^2: coupled noise plus coupled energy."""
    network = BlockNetwork(make_tiny_model("opt"), [11, 250, 3], dtype=torch.float64)
    batches_N, A_MN = batches(5), random_allocation(1, 3, 5, 0.6)
    product_MNN, loss_N = gradient_products(network, batches_N)
    measured = Measured.of_products(0, loss_N, product_MNN, A_MN)
    directions = Directions("rademacher", network.sizes_M, dtype=torch.float64)
    rho_NQ = estimate_exact(network, batches_N, A_MN, range(4000), directions).rho_NQ
    mean_square_M = np.square(A_MN / A_MN.sum(axis=1)[:, None] @ rho_NQ).mean(axis=1)
    shared_MM = A_MN @ A_MN.T.astype(float) / A_MN.sum(axis=1)[:, None]
    expected_M = measured.coupled_noise_M + np.square(shared_MM) @ measured.energy_M
    assert mean_square_M == pytest.approx(expected_M, rel=0.12)


def test_independent_noise_of_one_size_gives_back_energy_noise_v_and_e():
    rng, M, N, D, noise = np.random.default_rng(3), 6, 24, 20_000, 4.0
    A_MN = Allocation(random_allocation(5, M, N, 0.5)).A_MN
    mean_MD = rng.normal(size=(M, D)) * np.sqrt(np.arange(1, M + 1)[:, None] / D)
    gradient_MND = mean_MD[:, None] + rng.normal(size=(M, N, D)) * np.sqrt(noise / D)
    product_MNN = gradient_MND @ gradient_MND.transpose(0, 2, 1)
    measured = Measured.of_products(7, np.ones(N), product_MNN, A_MN)
    assert measured.energy_M == pytest.approx(np.arange(1, M + 1), rel=0.1)
    assert measured.noise_M == pytest.approx(noise, rel=0.05)
    assert measured.v == pytest.approx(Allocation(A_MN).mean_inverse_popularity, rel=0.05)
    assert measured.e == pytest.approx(coupled_noise(A_MN), rel=0.05)
    assert np.square(measured.norm_MN).mean() == pytest.approx(np.arange(1, M + 1).mean() + noise, rel=0.05)


def check_resumed(resumed, plain, whole) -> None:
    assert resumed.summary["weights_sha256"] == plain.summary["weights_sha256"]
    for again, measured in zip(resumed.diagnostics, whole.diagnostics, strict=True):
        assert again.round == measured.round
        for name in ("popularity_M", "energy_M", "noise_M", "bias_M", "coupled_noise_M", "norm_MN"):
            assert np.array_equal(getattr(again, name), getattr(measured, name))


@pytest.mark.usefixtures("rows_divided_once")
def test_a_measured_run_has_the_same_weights_and_a_resumed_one_the_same_measurements(tiny_opt_folder, tmp_path):
    request = {"model": tiny_opt_folder, "settings": replace(SETTINGS, rounds=6), "force": True}
    plain = fine_tune(ALLOCATION, **request, runs_folder=tmp_path / "plain")
    whole = fine_tune(ALLOCATION, **request, runs_folder=tmp_path / "whole", diagnostics=2)
    half = fine_tune(ALLOCATION, **request, runs_folder=tmp_path / "half", diagnostics=2, callbacks=[After4()])
    assert plain.diagnostics == ()
    assert "diagnostics" not in plain.config
    assert [measured.round for measured in whole.diagnostics] == [0, 2, 4, 6]
    assert [measured.round for measured in half.diagnostics] == [0, 2, 4]
    assert whole.summary["weights_sha256"] == plain.summary["weights_sha256"]
    # Killed between a round and its measurement; and what a longer life had measured is no matter.
    for rows in (whole.diagnostics, half.diagnostics[:2]):
        write_measured(half.path / DIAGNOSTICS, rows)
        copy = copy_of(half, tmp_path / f"copy-{len(rows)}")
        assert "diagnostics" in half.summary
        check_resumed(resume(copy), plain, whole)
        assert read_run(copy).summary["diagnostics"] == whole.summary["diagnostics"]
    assert whole.diagnostics[0].norm_MN.shape == (3, 3)
    assert (whole.diagnostics[0].norm_MN > 0).all()
    assert whole.diagnostics[0].popularity_M.tolist() == [2, 2, 2]

    content = bytearray((whole.path / DIAGNOSTICS).read_bytes())
    content[len(content) // 3] ^= 255
    (whole.path / DIAGNOSTICS).write_bytes(content)
    with pytest.raises(InvalidInputError, match=f"{DIAGNOSTICS}: not what was measured"):
        _ = read_run(whole.path).diagnostics


@pytest.fixture(scope="module")
def measured_run(tiny_opt_folder, tmp_path_factory):
    settings = replace(SETTINGS, rounds=4)
    folder = tmp_path_factory.mktemp("measured")
    return fine_tune(
        ALLOCATION, model=tiny_opt_folder, settings=settings, runs_folder=folder, force=True, diagnostics=2
    )


@pytest.mark.parametrize("unfinished", [False, True])
def test_a_run_that_measured_says_by_name_that_its_measurements_are_missing(measured_run, tmp_path, unfinished):
    run = shutil.copytree(measured_run.path, tmp_path / "run")
    (run / DIAGNOSTICS).unlink()
    if unfinished:
        (run / "summary.json").unlink()
    with pytest.raises(InvalidInputError, match=f"{DIAGNOSTICS} is missing, and this run measured"):
        _ = read_run(run).diagnostics
    (finding,) = verify_folder(tmp_path)
    assert finding.state == "broken"
    assert f"{DIAGNOSTICS} is missing" in finding.found


@pytest.mark.parametrize("unfinished", [False, True])
def test_measurements_that_are_a_link_to_nothing_are_not_taken_for_none(measured_run, tmp_path, unfinished):
    run = shutil.copytree(measured_run.path, tmp_path / "run")
    (run / DIAGNOSTICS).unlink()
    (run / DIAGNOSTICS).symlink_to("nothing")
    if unfinished:
        (run / "summary.json").unlink()
    with pytest.raises(InvalidInputError, match=f"{DIAGNOSTICS}: .*it is a link to nothing"):
        _ = read_run(run).diagnostics


def test_the_summary_alone_says_that_a_run_measured(measured_run, tmp_path):
    run = shutil.copytree(measured_run.path, tmp_path / "run")
    (run / DIAGNOSTICS).unlink()
    (run / "trajectory.log").unlink()
    config = read_sealed(run / "config.json")
    del config["diagnostics"]
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(InvalidInputError, match=f"{DIAGNOSTICS} is missing"):
        _ = read_run(run).diagnostics


def test_a_flipped_bit_of_the_measurements_gives_no_other_numbers(measured_run, tmp_path):
    run = shutil.copytree(measured_run.path, tmp_path / "run")
    path = run / DIAGNOSTICS

    def read() -> str:
        return repr(
            [(row.round, row.loss, row.energy_M, row.noise_M, row.norm_MN) for row in read_run(run).diagnostics]
        )

    assert noticed_or_unchanged(path, read, random.Random(5), 150, bits=1) > 75
    (run / "summary.json").unlink()  # the table has a checksum of its own
    table = pq.read_table(path)
    pq.write_table(table.set_column(1, "loss", pa.array([0.5] * len(table))), path)
    with pytest.raises(InvalidInputError, match=r"not what was measured .*\(its checksum does not fit"):
        _ = read_run(run).diagnostics


def test_measurements_of_another_run_or_time_are_not_those_that_the_summary_names(measured_run, tmp_path):
    run = shutil.copytree(measured_run.path, tmp_path / "run")
    write_measured(run / DIAGNOSTICS, measured_run.diagnostics[:2])
    with pytest.raises(InvalidInputError, match=f"{DIAGNOSTICS} is not the file that the run's summary names"):
        _ = read_run(run).diagnostics


def test_measurements_without_a_checksum_as_before_are_read(measured_run, tmp_path):
    run = shutil.copytree(measured_run.path, tmp_path / "run")
    pq.write_table(pq.read_table(run / DIAGNOSTICS).replace_schema_metadata(None), run / DIAGNOSTICS)
    summary = read_sealed(run / "summary.json")
    del summary["diagnostics"]
    (run / "summary.json").write_text(json.dumps(summary))
    assert [row.round for row in read_run(run).diagnostics] == [0, 2, 4]


def test_a_run_killed_between_its_first_evaluation_and_its_first_measurement_measures_when_it_is_resumed(
    measured_run, tmp_path
):
    run = shutil.copytree(measured_run.path, tmp_path / "run")
    for name in ("summary.json", DIAGNOSTICS):
        (run / name).unlink()
    lines = (run / "trajectory.log").read_bytes().splitlines(keepends=True)
    (run / "trajectory.log").write_bytes(b"".join(lines[:2]))  # the header and the evaluation before the first round
    lines_said: list[str] = []
    resumed = resume(run, notice=lines_said.append)
    assert [row.round for row in resumed.diagnostics] == [0, 2, 4]
    assert resumed.summary["diagnostics"] == measured_run.summary["diagnostics"]
    assert not [line for line in lines_said if DIAGNOSTICS in line]


def test_a_run_that_is_resumed_without_its_measurements_says_which_are_lost(measured_run, tmp_path):
    run = shutil.copytree(measured_run.path, tmp_path / "run")
    for name in ("summary.json", DIAGNOSTICS):
        (run / name).unlink()
    lines_said: list[str] = []
    resumed = resume(run, notice=lines_said.append)
    assert [
        line for line in lines_said if f"{DIAGNOSTICS} lacks what was measured after rounds 0, 2; that is lost" in line
    ]
    assert [row.round for row in resumed.diagnostics] == [4]


def test_a_resume_that_is_refused_does_not_say_before_what_it_would_compute_again(measured_run, tmp_path):
    run = shutil.copytree(measured_run.path, tmp_path / "run")
    (run / "summary.json").unlink()
    lines = (run / "trajectory.log").read_bytes().splitlines(keepends=True)
    (run / "trajectory.log").write_bytes(b"".join(lines[:2]))
    (run / DIAGNOSTICS).write_bytes((run / DIAGNOSTICS).read_bytes()[:-9])
    check_refused(call("resume", str(run)))
    (run / DIAGNOSTICS).unlink()
    left = call("resume", str(run))
    assert (left.status, "it ends at round 0 and the metrics have round 4; that is computed" in left.err) == (0, True)


@pytest.mark.parametrize(
    ("changes", "diagnostics", "said"),
    [
        ({}, 0, "diagnostics is 0; it must be a number of rounds"),
        ({"inactive": "dropped"}, 5, "gives each client another"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_a_folder_is_made(tmp_path, changes, diagnostics, said):
    with pytest.raises(InvalidInputError, match=said):
        fine_tune(ALLOCATION, settings=replace(SETTINGS, **changes), runs_folder=tmp_path, diagnostics=diagnostics)
    assert list(tmp_path.iterdir()) == []
