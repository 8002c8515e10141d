"""The VRAM model against the paper's Table II, cell by cell, and the budgets that follow from it."""

from __future__ import annotations

import numpy as np
import pytest

from zorba_core.errors import InfeasibleError, InvalidInputError
from zorba_core.planning.memory import (
    GIB,
    Workload,
    affordable_blocks,
    psi_block_bytes,
    psi_client_bytes,
    psi_model_bytes,
    total_bytes,
    whole_block_budgets,
)
from zorba_core.planning.models import model_spec

OPT = model_spec("opt-125m")
WORKLOAD = Workload(batch_size=8, seq_len=128)

# Table II, "VRAM" rows: (model, L, method, total blocks, GiB). ZorBA's block totals are not printed; each is the whole
# number of blocks that the cell implies.
TABLE_II = [
    ("opt-125m", 128, "zorba", 200, 47.31),
    ("opt-125m", 128, "zorba", 300, 59.32),
    ("opt-125m", 256, "zorba", 450, 131.39),
    ("opt-1.3b", 128, "zorba", 375, 538.04),
    ("opt-1.3b", 128, "zorba", 700, 794.49),
    ("opt-1.3b", 256, "zorba", 850, 1583.55),
    ("opt-125m", 128, "fedit", None, 118.67),
    ("opt-125m", 256, "fedit", None, 190.74),
    ("opt-1.3b", 128, "fedit", None, 1431.17),
    ("opt-1.3b", 256, "fedit", None, 2378.05),
    *[
        cell
        for method in ("fedzo", "decomfl")
        for cell in (
            ("opt-125m", 128, method, None, 95.37),
            ("opt-125m", 256, method, None, 167.44),
            ("opt-1.3b", 128, method, None, 1189.03),
            # Printed as 2315.90, which is 2135.90 with two digits swapped back. The model gives 2135.89 with the
            # preset's d = 1.300e9; from print alone, FedIT's cell less one copy of the parameters (242.14), 2135.91.
            ("opt-1.3b", 256, method, None, 2135.90),
        )
    ],
]


@pytest.mark.parametrize(("name", "seq_len", "method", "total_blocks", "printed_gib"), TABLE_II)
def test_table_ii_is_reproduced(name, seq_len, method, total_blocks, printed_gib):
    total = total_bytes(model_spec(name), Workload(batch_size=8, seq_len=seq_len), 50, total_blocks, method)
    assert total / GIB == pytest.approx(printed_gib, abs=0.05)


def test_half_precision_halves_every_byte():
    half = Workload(batch_size=8, seq_len=128, dtype="bfloat16")
    assert 2 * psi_block_bytes(OPT, half) == psi_block_bytes(OPT, WORKLOAD)
    assert 2 * psi_model_bytes(OPT, half) == psi_model_bytes(OPT, WORKLOAD)


def test_a_client_holds_the_parameters_and_its_blocks():
    parameters, block = psi_model_bytes(OPT, WORKLOAD), psi_block_bytes(OPT, WORKLOAD)
    assert psi_client_bytes(OPT, WORKLOAD, [0, 1, 12]).tolist() == [
        parameters,
        parameters + block,
        parameters + 12 * block,
    ]


@pytest.mark.parametrize("name", ["opt-125m", "opt-1.3b", "opt-2.7b"])
@pytest.mark.parametrize("workload", [WORKLOAD, Workload(seq_len=7), Workload(batch_size=1, dtype="float16")])
def test_a_capacity_of_exactly_k_blocks_affords_k(name, workload):
    model = model_spec(name)
    blocks = np.arange(1, model.num_blocks + 1)
    capacity = psi_client_bytes(model, workload, blocks)
    assert whole_block_budgets(capacity, model, workload).tolist() == blocks.tolist()
    assert affordable_blocks(capacity - 1000, model, workload).tolist() == (blocks - 1).tolist()


def test_budgets_never_exceed_the_number_of_blocks():
    assert whole_block_budgets([1000 * GIB], OPT, WORKLOAD).tolist() == [12]


def test_a_client_that_cannot_hold_one_block_is_named():
    capacity = psi_client_bytes(OPT, WORKLOAD, [3, 0, 5, 0])
    with pytest.raises(
        InfeasibleError, match=r"2 of 4 clients cannot hold opt-125m and one block .* client 1, 3"
    ) as error:
        whole_block_budgets(capacity, OPT, WORKLOAD)
    assert error.value.clients == (1, 3)
    with pytest.raises(InfeasibleError, match=r"client bea, dan; leave"):
        whole_block_budgets(capacity, OPT, WORKLOAD, names=("al", "bea", "cy", "dan"))


def test_reserves_of_many_vectors_give_as_many_vectors_of_blocks():
    capacity = psi_client_bytes(OPT, WORKLOAD, [12, 6])
    reserve_EN = np.array([[0.0, 0.0], [0.5, 0.5]]) * capacity
    blocks_EN = affordable_blocks(capacity, OPT, WORKLOAD, reserve_EN)
    assert blocks_EN[0].tolist() == [12, 6]
    for row, vector in zip(blocks_EN, reserve_EN, strict=True):
        assert row.tolist() == affordable_blocks(capacity, OPT, WORKLOAD, vector).tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_a_capacity_that_is_no_amount_of_memory_names_its_client(bad):
    with pytest.raises(InvalidInputError, match="client 1: capacity"):
        whole_block_budgets([GIB, bad], OPT, WORKLOAD)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"seq_len": 0}, "seq_len is 0"),
        ({"dtype": "int4"}, "dtype is 'int4'; choose one of float32"),
    ],
)
def test_a_bad_workload_is_refused(settings, says):
    with pytest.raises(InvalidInputError, match=says):
        Workload(**settings)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((50, 300, "lora"), "unknown method 'lora'"),
        ((50, None, "zorba"), "give the total of activated blocks"),
        ((50, 49, "zorba"), "between 50 .* and 600"),
        ((50, 601, "zorba"), "between 50 .* and 600"),
        ((50, 300, "fedit"), "fedit activates all 600 blocks"),
        ((0, None, "fedit"), "number of clients is 0"),
    ],
)
def test_an_impossible_total_is_refused(arguments, says):
    with pytest.raises(InvalidInputError, match=says):
        total_bytes(OPT, WORKLOAD, *arguments)
