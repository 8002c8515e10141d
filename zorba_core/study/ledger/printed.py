"""The paper's VRAM cells as printed, and the settings that Tables I and II share. (Rounds and communication are in
``zorba_core.study.printed_communication``, beside the ways of counting that were tried on them.)"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

NUM_CLIENTS, BATCH_SIZE = 50, 8
METHOD_TITLES: Mapping[str, str] = {"zorba": "ZorBA", "fedit": "FedIT", "fedzo": "FedZO", "decomfl": "DeComFL"}
# The paper's dataset names are ours in small letters.
DATASETS: Mapping[str, str] = {"AG-News": "ag-news", "SST-2": "sst2", "SNLI": "snli"}


class VramRow(NamedTuple):
    """A row of Table II: GiB of all clients. L is not printed; these are the lengths at which the baselines fit."""

    model: str  # a preset of zorba_core.vram
    dataset: str
    seq_len: int
    total_blocks: int  # of ZorBA: the whole number that its cell stands for
    gib: Mapping[str, float]  # by method


def _row(model: str, dataset: str, seq_len: int, blocks: int, *gib: float) -> VramRow:
    return VramRow(model, dataset, seq_len, blocks, dict(zip(METHOD_TITLES, gib, strict=True)))


TABLE_2_VRAM = (
    _row("opt-125m", "AG-News", 128, 200, 47.31, 118.67, 95.37, 95.37),
    _row("opt-125m", "SST-2", 128, 300, 59.32, 118.67, 95.37, 95.37),
    _row("opt-125m", "SNLI", 256, 450, 131.39, 190.74, 167.44, 167.44),
    _row("opt-1.3b", "AG-News", 128, 375, 538.04, 1431.17, 1189.03, 1189.03),
    _row("opt-1.3b", "SST-2", 128, 700, 794.49, 1431.17, 1189.03, 1189.03),
    _row("opt-1.3b", "SNLI", 256, 850, 1583.55, 2378.05, 2315.90, 2315.90),
)
MODEL_TITLES = {"opt-125m": "OPT-125M", "opt-1.3b": "OPT-1.3B"}
