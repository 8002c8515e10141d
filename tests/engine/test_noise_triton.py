"""The Triton kernel's bits, by Triton's interpreter on the CPU, against NumPy's Philox."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CHILD = """
import numpy as np
import torch
from zorba_core.engine import noise, noise_triton
from zorba_core.engine.directions import Directions

KEYS = [(0, 0), (2**32 - 1, 11), (2**63 + 5, 1), (2**64 - 1, 2**32)]
SLICES = [(0, 1), (7, 9), (255, 700), (0, 2049), (2**33 + 5, 2**33 + 300), (13, 13)]
count = 0
for kind, plain in (("normals", noise.normals), ("signs", noise.signs)):
    for seed, block in KEYS:
        for start, stop in SLICES:
            expected = plain(seed, block, start, stop)
            assert torch.equal(noise_triton.draw(kind, seed, block, start, stop, "cpu"), expected), (kind, seed, start)
            weights = torch.linspace(-1, 1, stop - start)
            moved = weights.clone()
            noise_triton.add_to(kind, moved, 1e-3, seed, block, start, stop)
            assert torch.equal(moved, weights + expected * 1e-3), (kind, seed, start)
            count += 1
assert noise_triton.works_on("cpu")
for kind, name in (("gaussian", "normals"), ("rademacher", "signs")):
    directions = Directions(kind, [3000])
    ours, theirs = torch.full((3000,), 0.05), torch.full((3000,), 0.05)
    directions.add_to(theirs, 9, 0, 1e-3)
    noise_triton.add_to(name, ours, 1e-3, 9, 0, 0, 3000)
    assert torch.equal(ours, theirs)
# As a CUDA device uses it: directions and their sums are the kernel's.
used = []
fused = noise_triton.add_to
noise_triton.add_to = lambda *where: (used.append(where[0]), fused(*where))
plain = {kind: Directions(kind, [3000]).block(4, 0) for kind in ("gaussian", "rademacher", "sphere")}
noise.triton_on = lambda device: noise_triton
for kind, expected in plain.items():
    directions = Directions(kind, [3000])
    assert torch.equal(directions.block(4, 0), expected)
    moved = torch.ones(3000)
    directions.add_to(moved, 4, 0, 1e-3)
    assert torch.equal(moved, 1 + expected * 1e-3), kind
    assert torch.equal(directions.step(np.array([1e-3]), [4], 0), torch.zeros(3000).add_(expected, alpha=1e-3)), kind
assert used == ["normals", "signs", "signs"], used  # a sum along normals rounds once, which the kernel does not
print("compared", count)
normals = noise.normals
noise.normals = lambda *where: normals(*where) + 1  # as on a device whose bits differ
noise_triton.works_on.cache_clear()
print("trusted:", noise_triton.works_on("cpu"))
"""


def in_the_interpreter(program: str, root) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("triton", reason="needs Triton (extra dev, Linux)")
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=root,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )  # fmt: skip


@pytest.mark.slow
def test_the_kernel_draws_and_adds_the_cpus_bits_and_a_device_whose_bits_differ_is_not_trusted(root):
    answer = in_the_interpreter(CHILD, root)
    assert answer.returncode == 0, answer.stderr[-2000:]
    assert answer.stdout.splitlines() == ["compared 48", "trusted: False"]
    assert "the Triton kernel for noise is not used on cpu (ArithmeticError: its normals differ from the CPU's)" in (
        answer.stderr
    )


@pytest.mark.slow
def test_the_cpu_does_without_triton():
    """Importing the noise and drawing on the CPU loads no Triton."""
    program = "import sys, zorba_core.engine.noise as noise; noise.signs(1, 2, 0, 9); print('triton' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
