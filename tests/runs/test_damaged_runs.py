"""A damaged run folder: the others are listed, it is named in one line, and nobody writes into it."""

from __future__ import annotations

import binascii
import json
import math
import re
import shutil

import pytest

from tests.command import call, check_refused, tree
from tests.runs.resumable import ALLOCATION, SETTINGS
from zorba_core.files import read_json
from zorba_core.runs import read_run
from zorba_core.runs.session import fine_tune


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("summary.json", b'{"rounds_done": 9, "fin', "summary.json: not JSON"),
        ("config.json", b"[1]", "config.json: holds a list where a JSON object belongs"),
        ("config.json", None, "cut short at its start: no config.json"),
        ("allocation.npz", b"PK\x03\x04rubbish", "the archive is damaged"),
        ("metrics.parquet", b"PAR1 not really", "metrics.parquet: not a metrics table"),
    ],
)
def test_one_damaged_run_hides_no_other(whole, tmp_path, name, content, says):
    shutil.copytree(whole.path, tmp_path / "healthy")
    damaged = shutil.copytree(whole.path, tmp_path / "damaged")
    (damaged / name).unlink()
    if content is not None:
        (damaged / name).write_bytes(content)
    left = call("runs", str(tmp_path), "--json")
    assert left.status == 0
    answer = json.loads(left.out)
    assert [row["run"] for row in answer["runs"]] == ["healthy"]
    assert [says in problem for problem in answer["problems"]] == [True]
    if name != "metrics.parquet":  # the log has them too
        before = tree(tmp_path)
        for command in ("resume", "replay"):
            check_refused(call(command, str(damaged)))
        assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("num_clients", 4, "num_clients is 4 in config.json and 3 in allocation.npz"),
        ("rounds", "nine", "rounds is 'nine'; it must be a whole number"),
        ("seed", 77, "config.json is not the one that trajectory.log was written under"),
    ],
)
def test_a_changed_config_is_named_and_nothing_is_written(whole, tmp_path, field, value, says):
    run = shutil.copytree(whole.path, tmp_path / "run")
    (run / "summary.json").unlink()
    (run / "config.json").write_text(json.dumps(read_json(run / "config.json") | {field: value}))
    before = tree(tmp_path)
    for command in ("resume", "replay"):
        left = call(command, str(run))
        check_refused(left)
        assert says in left.err
    assert tree(tmp_path) == before


def test_equal_shares_are_null_in_the_config_and_resume(rows_divided_once, tiny_opt_folder, tmp_path):
    run = fine_tune(ALLOCATION, model=tiny_opt_folder, settings=SETTINGS, alpha=math.inf, runs_folder=tmp_path)
    assert run.config["alpha"] is None
    (run.path / "summary.json").unlink()
    assert call("resume", str(run.path)).status == 0
    assert read_run(run.path).summary["weights_sha256"] == run.summary["weights_sha256"]


def test_a_log_of_a_later_version_is_refused_by_name(whole, tmp_path):
    run = shutil.copytree(whole.path, tmp_path / "run")
    header, *_ = (run / "trajectory.log").read_bytes().splitlines(keepends=True)
    content = re.sub(rb'"version":\d+', b'"version":9', header[9:-1])
    (run / "trajectory.log").write_bytes(b"%08x %s\n" % (binascii.crc32(content), content))
    left = call("replay", str(run))
    check_refused(left)
    assert "version 9; this program reads version 1" in left.err
