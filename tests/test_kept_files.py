"""Files of earlier versions read as they did; those of a later one are refused by name."""

from __future__ import annotations

import binascii
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.damage import call, check_refused
from zorba_core.allocation import allocation_from_file
from zorba_core.errors import InvalidInputError
from zorba_core.runs import read_run
from zorba_core.runs.trajectory import read_trajectory
from zorba_core.study.experiments.store import read_tables
from zorba_core.study.ledger.claims import read_ledger
from zorba_core.study.verify import verify_folder

SETS = sorted(path for path in (Path(__file__).parent / "kept").iterdir() if path.is_dir())


@pytest.fixture(params=SETS, ids=lambda path: path.name)
def kept(request) -> Path:
    return request.param


def test_numbers_of_earlier_versions_are_read(kept):
    for ending in ("npz", "json", "csv"):
        allocation = allocation_from_file(kept / f"allocation.{ending}")
        assert np.array_equal(allocation.A_MN, [[1, 0, 1], [1, 1, 0], [0, 1, 1]])
    assert read_ledger(kept / "ledger.json").claims[0].ours == 2.49
    runs, curves = read_tables(kept / "tables")
    assert runs["lr"].tolist() == [0.0, 0.1]
    assert curves["loss"].tolist() == [1.0, 1 / 2, 1 / 3]


def test_runs_of_earlier_versions_are_read_and_listed(kept):
    run = read_run(kept / "runs" / "toy")
    assert (run.summary["final_accuracy"], run.metrics["eval_accuracy"].tolist()) == (0.75, [0.5, 0.625, 0.75])
    log = read_trajectory(run.path / "trajectory.log")
    assert (log.rounds_done, log.rounds[1].lr, log.rounds[0].rho_NQ.shape) == (2, 0.01, (3, 2))
    (row,) = json.loads(call("runs", str(kept / "runs"), "--json").out)["runs"]
    assert (row["run"], row["rounds_done"]) == ("toy", 2)
    assert {finding.state for finding in verify_folder(kept)} <= {"ok", "note"}


def test_a_log_of_a_later_version_is_refused_by_name(kept, tmp_path):
    run = shutil.copytree(kept / "runs" / "toy", tmp_path / "run")
    header, *_ = (run / "trajectory.log").read_bytes().splitlines(keepends=True)
    content = header[9:-1].replace(b'"version":1', b'"version":9')
    (run / "trajectory.log").write_bytes(b"%08x %s\n" % (binascii.crc32(content), content))
    with pytest.raises(InvalidInputError, match="version 9; this program reads version 1"):
        read_trajectory(run / "trajectory.log")
    left = call("replay", str(run))
    check_refused(left)
    assert "version 9; this program reads version 1" in left.err
