"""The README's first command can be resolved on an ordinary Linux machine.

The resolver reads what PyPI's own build of torch requires. A CPU build of torch, as on many test machines, requires no
triton and would hide a wrong pin.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]


def resolve(constraints: Path, python: str) -> subprocess.CompletedProcess[str]:
    uv = Path(sys.executable).with_name("uv")
    command = [
        str(uv) if uv.exists() else shutil.which("uv") or pytest.skip("needs uv (extra dev)"),
        *("pip", "compile", "pyproject.toml", "--all-extras", "--no-config"),
        *("--constraint", str(constraints), "--python-version", python),
        *("--python-platform", "x86_64-unknown-linux-gnu"),
    ]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=600)
    if done.returncode != 0 and "No solution found" not in done.stderr:
        pytest.skip(f"the package index cannot be reached: {done.stderr.strip().splitlines()[:1]}")
    return done


@pytest.mark.slow
@pytest.mark.parametrize("python", ["3.11.5", "3.12", "3.13", "3.14"])
def test_the_pins_agree_with_what_every_package_requires(python):
    done = resolve(REPOSITORY / "constraints.txt", python)
    assert done.returncode == 0, done.stderr
    assert "\ntorch==2.13.0" in done.stdout


@pytest.mark.slow
def test_a_triton_that_torch_refuses_is_noticed(tmp_path):
    pins = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8")
    wrong = tmp_path / "constraints.txt"
    wrong.write_text(pins.replace("triton==3.7.1", "triton==3.6.0"), encoding="utf-8")
    done = resolve(wrong, "3.12")
    assert done.returncode != 0
    assert "triton" in done.stderr
