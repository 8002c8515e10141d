"""The drawn VRAM is the model's: stacks add up to psi, and the staircase climbs one psi_block a block."""

from __future__ import annotations

import pytest

from notebooks.reproduction.memory_figures import forward_pass_figure, vram_by_blocks_figure
from zorba_core.vram import Workload, model_spec, psi_block_bytes, psi_model_bytes

MIB = 2**20
OPT, WORKLOAD = model_spec("opt-125m"), Workload(batch_size=8, seq_len=128)


def test_each_stack_is_parameters_and_k_blocks():
    figure = vram_by_blocks_figure(OPT, WORKLOAD)
    assert len(figure.data) == 4
    assert list(figure.data[0].x) == list(range(1, 13))
    for k in range(1, 13):
        stacked = sum(trace.y[k - 1] for trace in figure.data)
        assert stacked * MIB == pytest.approx(psi_model_bytes(OPT, WORKLOAD) + k * psi_block_bytes(OPT, WORKLOAD))


def test_every_block_takes_one_unit_of_the_axis_whatever_its_operations():
    figure = forward_pass_figure([1, 5, 2, 3, 9, 4, 3], block_ends=[3, 5, 7], charged_mib=10)
    stairs, alive = figure.data
    assert list(stairs.y) == [10, 10, 20, 20, 30, 30]
    assert list(alive.x) == pytest.approx([1 / 3, 2 / 3, 1, 1.5, 2, 2.5, 3])
