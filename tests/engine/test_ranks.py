"""One run on two processes over gloo on the CPU: children of this one, and once started by torchrun itself."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.tiny_models import tiny_model
from zorba_core.allocation import Allocation
from zorba_core.cli import main
from zorba_core.engine.loop import run as run_loop
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.ranks import ALONE, Ranks, joined
from zorba_core.engine.rounds import FederatedRows
from zorba_core.engine.rows import Encoded
from zorba_core.engine.settings import TrainSettings
from zorba_core.errors import RunError
from zorba_core.runs import TRAJECTORY, list_runs, read_run
from zorba_core.runs.trajectory import read_trajectory

pytestmark = pytest.mark.slow

OPTIONS = [
    *("--clients", "5", "--rounds", "4", "--batch-size", "2", "--perturbations", "3", "--num-seeds", "16"),
    *("--seq-len", "48", "--eval-rows", "20", "--eval-every", "2", "--participation", "0.8", "--json"),
]
TORCHRUN = [
    *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
    *("-m", "zorba_core"),
]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def both_ranks(work: Callable[[], None], folder: Path) -> list[subprocess.CompletedProcess]:
    """``work`` in two children of this process, which torchrun's environment makes ranks: no libraries to load anew."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    folder.mkdir(parents=True)
    for rank in range(2):
        child = os.fork()
        if child:
            children.append(child)
            continue
        try:
            for number, name in ((1, "out"), (2, "err")):
                os.dup2(os.open(folder / f"{name}-{rank}", os.O_WRONLY | os.O_CREAT), number)
            sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
            place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            os.environ.update({name: str(value) for name, value in place.items()})
            work()
            status = 0
        except SystemExit as ended:
            status = int(ended.code or 0)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            status = 70
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    texts = [[(folder / f"{name}-{rank}").read_text() for name in ("out", "err")] for rank in range(2)]
    return [subprocess.CompletedProcess((), status, *text) for status, text in zip(ended, texts, strict=True)]


def commanded(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """``zorba`` with these arguments on both ranks; what they said together."""

    def work() -> None:
        sys.argv = ["zorba", *arguments]
        main()

    first, second = both_ranks(work, folder)
    texts = (first.stdout + second.stdout, first.stderr + second.stderr)
    return subprocess.CompletedProcess(arguments, first.returncode or second.returncode, *texts)


def test_every_client_is_computed_by_one_rank():
    clients = np.array([0, 2, 3, 7, 8])
    shares = [Ranks(rank, 3).own(clients).tolist() for rank in range(3)]
    assert sorted(np.concatenate(shares).tolist()) == clients.tolist()
    assert ALONE.own(clients).tolist() == clients.tolist()
    assert Ranks(6, 7).own(clients).tolist() == []  # more ranks than clients


@pytest.fixture(scope="module")
def two(tiny_opt_folder, tmp_path_factory):
    """(result printed, run, folder) of two ranks."""
    folder = tmp_path_factory.mktemp("two")
    where = ("--model", str(tiny_opt_folder), "--runs-folder", str(folder / "runs"))
    done = commanded(folder / "ranks", "train", *where, *OPTIONS)
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout)  # one JSON object: one rank talks
    return result, read_run(result["run"]), folder / "runs"


def test_two_ranks_do_what_one_process_does(two, tiny_opt_folder, tmp_path, monkeypatch, capsys):
    """Evaluations compare the ranks' weights and fail the run where they differ: a run that ends had equal replicas."""
    _, run, _ = two
    where = ["--model", str(tiny_opt_folder), "--runs-folder", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["zorba", "train", *where, *OPTIONS])
    with pytest.raises(SystemExit):
        main()
    alone = read_run(json.loads(capsys.readouterr().out)["run"])
    mine, theirs = (read_trajectory(r.path / TRAJECTORY).rounds for r in (alone, run))
    for one, other in zip(mine, theirs, strict=True):
        assert other.rho_NQ == pytest.approx(one.rho_NQ, rel=1e-5)
        assert np.array_equal(one.status_N, other.status_N)
        assert np.array_equal(one.seeds_Q, other.seeds_Q)
    assert run.summary["forward_passes"] == alone.summary["forward_passes"] == 4 * 4 * (1 + 3)
    assert run.summary["scalars_up"] == alone.summary["scalars_up"] == 4 * 4 * 3
    assert (run.environment["ranks"], alone.environment["ranks"]) == (2, 1)


def test_two_ranks_take_the_exact_scalars_of_one_process_and_the_first_measures_gradients(
    tiny_opt_folder, tmp_path, monkeypatch, capsys
):
    """A client's scalars do not depend, but for rounding, on the clients whose rows pass beside its own."""
    options = ["--model", str(tiny_opt_folder), *OPTIONS, "--rounds", "2", "--estimator", "exact", "--diagnostics", "2"]
    done = commanded(tmp_path / "ranks", "train", *options, "--runs-folder", str(tmp_path / "two"))
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr.count("finite differences at mu 0.001") == 1
    monkeypatch.setattr(sys, "argv", ["zorba", "train", *options, "--runs-folder", str(tmp_path / "one")])
    with pytest.raises(SystemExit):
        main()
    two, one = (read_run(json.loads(text)["run"]) for text in (done.stdout, capsys.readouterr().out))
    for ours, theirs in zip(*(read_trajectory(run.path / TRAJECTORY).rounds for run in (one, two)), strict=True):
        assert np.abs(ours.rho_NQ - theirs.rho_NQ).max() <= 1e-5 * np.abs(ours.rho_NQ).max()
    assert two.summary["backward_passes"] == one.summary["backward_passes"] == 2 * 4
    assert [measured.round for measured in two.diagnostics] == [0, 2]
    assert two.diagnostics[0].norm_MN == pytest.approx(one.diagnostics[0].norm_MN, rel=1e-5)


def test_one_folder_is_written_and_one_rank_talks(two):
    _, run, folder = two
    listing = list_runs(folder)
    assert [r.path for r in listing.runs] == [run.path]
    assert listing.problems == ()
    assert run.finished


def test_two_ranks_resume_what_was_cut(two, tmp_path):
    _, run, _ = two
    cut = tmp_path / "cut"
    shutil.copytree(run.path, cut)
    (cut / "summary.json").unlink()
    log = (cut / TRAJECTORY).read_bytes()
    (cut / TRAJECTORY).write_bytes(log[: len(log) * 2 // 3])
    done = commanded(tmp_path / "ranks", "resume", str(cut), "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout)["weights_sha256"] == run.summary["weights_sha256"]


def test_ctrl_c_ends_both_ranks_after_one_round_and_the_run_goes_on(tiny_opt_folder, tmp_path, monkeypatch, capsys):
    """As a terminal sends it: to torchrun and all that share its process group."""
    where = ["--model", str(tiny_opt_folder), "--runs-folder", str(tmp_path)]
    more = ["--rounds", "80", "--eval-every", "40"]  # long enough to be met on the way
    started = subprocess.Popen(
        [*TORCHRUN, "train", *where, *OPTIONS, *more],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, start_new_session=True,
    )  # fmt: skip
    while started.poll() is None and not any(log.stat().st_size > 2000 for log in tmp_path.glob(f"*/{TRAJECTORY}")):
        time.sleep(0.05)
    os.killpg(started.pid, signal.SIGINT)
    _, errors = started.communicate(timeout=100)
    assert started.returncode != 0
    assert errors.count("stopping after this round") == errors.count("zorba: interrupted after round") == 1
    (run,) = list_runs(tmp_path).runs
    done = run.summary["rounds_done"]
    assert (run.summary["stopped_by"], 0 < done < 80) == ("interrupt", True)
    monkeypatch.setattr(sys, "argv", ["zorba", "resume", str(run.path), "--json"])
    with pytest.raises(SystemExit):
        main()
    assert json.loads(capsys.readouterr().out)["rounds_done"] == 80
    assert read_run(run.path).summary["resumed_after_rounds"] == [done]


def test_ranks_whose_weights_differ_end_the_run(tmp_path):
    """A rank with another model is found at the first evaluation."""

    def work() -> None:
        with joined() as ranks:
            network = BlockNetwork(tiny_model("opt"), [5, 6])
            network.block_weights(1)[7] += 1e-3 * ranks.rank
            train = Encoded(torch.full((8, 4), 9), torch.full((8,), 3), torch.zeros(8, dtype=torch.long))
            rows = FederatedRows(train, [np.arange(4), np.arange(4, 8)], train)
            settings = TrainSettings(rounds=1, batch_size=2, seq_len=4)
            try:
                run_loop(network, Allocation(np.ones((3, 2))), rows, settings, ranks=ranks)
            except RunError as error:
                print(error, flush=True)

    for done in both_ranks(work, tmp_path / "ranks"):
        assert "round 0: rank 1's weights differ from rank 0's" in done.stdout, done.stderr


def test_two_ranks_average_the_gradients_of_all_clients(tiny_opt_folder, tmp_path, monkeypatch, capsys):
    """FedIT: what the ranks add up is one process's gradient, up to the order of the sum."""
    options = [option for option in OPTIONS if option not in ("--perturbations", "3")]
    options += ["--method", "fedit", "--lr", "0.05", "--model", str(tiny_opt_folder), "--save-model"]
    done = commanded(tmp_path / "ranks", "train", "--runs-folder", str(tmp_path / "two"), *options)
    assert done.returncode == 0, done.stderr[-2000:]
    monkeypatch.setattr(sys, "argv", ["zorba", "train", "--runs-folder", str(tmp_path / "one"), *options])
    with pytest.raises(SystemExit):
        main()
    two, one = json.loads(done.stdout), json.loads(capsys.readouterr().out)
    assert two["backward_passes"] == one["backward_passes"] == 4 * 4
    saved = [load_file(f"{result['run']}/model/model.safetensors") for result in (two, one)]
    moved = load_file(tiny_opt_folder / "model.safetensors")
    for name, tensor in saved[0].items():
        assert torch.allclose(tensor, saved[1][name], atol=1e-6)
    assert any(not torch.equal(tensor, moved[name]) for name, tensor in saved[0].items())
