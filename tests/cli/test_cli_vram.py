from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.command import call, check_refused


def test_vram_prints_one_json_object_and_nothing_else():
    command = ["vram", "--model", "opt-1.3b", "--seq-len", "256", "--total-blocks", "850", "--json"]
    done = subprocess.run([sys.executable, "-m", "zorba_core", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == ""
    result = json.loads(done.stdout)
    assert result["total_gib"] == pytest.approx(1583.55, abs=0.05)
    assert {"psi_model_gib", "psi_block_gib", "total_gib"} <= result.keys()


def test_a_wrong_request_gets_one_line_on_stderr_and_status_2():
    for arguments, says in [
        (("--total-blocks", "10"), "total blocks is 10"),
        (("--model", "opt-9000b"), "unknown model 'opt-9000b'"),
        (("--method", "lora"), "unknown method 'lora'"),
        (("--dtype", "int4", "--total-blocks", "300"), "--dtype is 'int4'"),
    ]:
        left = call("vram", *arguments)
        check_refused(left)
        assert left.status == 2
        assert says in left.err
