"""A sweep on a Ray cluster: the same weights as in this process, also after Ctrl-C."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time

import pytest

from zorba_core.errors import MissingDataError, RunError
from zorba_core.study.experiments import pools, read_results, run_experiments, store

PATIENCE_S = 240


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The weights of the ablations' ci profile, run in this process."""
    folder = tmp_path_factory.mktemp("alone")
    run_experiments(["ablations"], "ci", root=folder, stream=io.StringIO())
    return weights(folder)


def weights(folder):
    return read_results("ablations", "ci", folder).runs.set_index("sha256")["weights_sha256"].sort_index().to_dict()


def test_without_ray_one_line_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(pools, "find_spec", lambda name: None)
    with pytest.raises(MissingDataError, match=r"pip install .*\[ray\]"):
        run_experiments(["ablations"], "ci", ray_address="local", root=tmp_path, stream=io.StringIO())


def test_a_cluster_gives_the_same_weights(alone, tmp_path):
    pytest.importorskip("ray", reason="needs the extra 'ray'")
    log = io.StringIO()
    done = run_experiments(["ablations"], "ci", workers=2, ray_address="local", root=tmp_path, stream=log)
    assert (done.ran, done.failed, done.stopped) == (3, 0, False)
    assert "3/3" in log.getvalue()
    assert weights(tmp_path) == alone


def test_ctrl_c_reaches_the_cluster_and_the_sweep_goes_on_later(alone, tmp_path):
    pytest.importorskip("ray", reason="needs the extra 'ray'")
    command = [sys.executable, "-m", "zorba_core", "experiment", "ablations", "--profile", "ci", "--root", tmp_path]
    command += ["--ray-address", "local", "--workers", "1"]
    sweep = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    deadline = time.monotonic() + PATIENCE_S
    while not list((tmp_path / store.WORK).glob("*/*/*/trajectory.log")):  # a run has begun
        assert time.monotonic() < deadline
        assert sweep.poll() is None, sweep.communicate()
        time.sleep(0.05)
    sweep.send_signal(signal.SIGINT)
    _, told = sweep.communicate(timeout=PATIENCE_S)
    assert sweep.returncode == 1
    assert "stopped; what is finished is kept" in told
    assert "Traceback" not in told
    assert run_experiments(["ablations"], "ci", root=tmp_path, stream=io.StringIO()).stopped is False
    assert weights(tmp_path) == alone


@pytest.mark.parametrize("address", ["127.0.0.1:9", "auto", "not an address", "host:port"])
def test_nobody_at_the_address_is_said_in_one_line(tmp_path, address):
    pytest.importorskip("ray", reason="needs the extra 'ray'")
    with pytest.raises(RunError, match=rf"no Ray cluster answers at '{address}' \(.*ray start --head"):
        run_experiments(["ablations"], "ci", ray_address=address, root=tmp_path, stream=io.StringIO())
