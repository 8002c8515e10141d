"""Real mixes of GPUs, each with where its numbers come from and when, and fleets drawn from them.

Sizes are what vendors call GB, which for graphics memory are GiB. Shapes: N clients, C cards of a mix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from zorba_core.errors import InvalidInputError
from zorba_core.planning.fleets import Fleet, client_rng
from zorba_core.planning.memory import GIB


@dataclass(frozen=True)
class Card:
    """One kind of device: its name, its memory, and how often it occurs relative to the others of its mix."""

    name: str
    gib: float
    weight: float = 1.0


@dataclass(frozen=True)
class Mix:
    """Kinds of device that occur together."""

    title: str
    cards: tuple[Card, ...]
    source: str
    date: str
    weights: str  # where the weights come from
    reserved_gib: float = 0.0  # memory that the system keeps on every device


MIXES: Mapping[str, Mix] = {
    "steam": Mix(
        title="Desktop graphics cards",
        cards=tuple(
            Card(f"{gib} GB card", gib, weight)
            for gib, weight in (
                (4, 0.069),
                (6, 0.073),
                (8, 0.306),
                (10, 0.022),
                (11, 0.012),
                (12, 0.154),
                (16, 0.269),
                (20, 0.014),
                (22, 0.010),
                (24, 0.058),
                (32, 0.013),
            )
        ),
        source="Steam hardware survey, by way of jdegene/steamHWsurvey (shs.csv, 98a507c)",
        date="April 2026, after Valve corrected its VRAM reporting in February",
        weights="shares of surveyed machines with 4 GB or more, renormalised",
    ),
    "jetson": Mix(
        title="Jetson edge devices",
        cards=(
            Card("Orin Nano 4GB", 4),
            Card("Orin Nano 8GB", 8),
            Card("Orin NX 8GB", 8),
            Card("Orin NX 16GB", 16),
            Card("AGX Orin 32GB", 32),
            Card("AGX Orin 64GB", 64),
        ),
        source="NVIDIA's datasheets of Orin Nano and Orin NX; AGX Orin from general knowledge",
        date="read in November 2026",
        weights="each kind equally often: an assumption",
        reserved_gib=2.0,
    ),
    "cloud": Mix(
        title="Cloud GPUs",
        cards=(
            Card("T4", 16),
            Card("V100", 16),
            Card("L4", 24),
            Card("A10G", 24),
            Card("A30", 24),
            Card("A100 40GB", 40),
            Card("L40S", 48),
            Card("A100 80GB", 80),
            Card("H100", 80),
            Card("H200", 141),
            Card("B200", 180),
        ),
        source="Modal's documentation, NVIDIA's NIM and MIG guides",
        date="read in November 2026",
        weights="each kind equally often: an assumption",
    ),
    "mig": Mix(
        title="MIG shares of data-centre GPUs",
        cards=(
            Card("A30 1g.6gb", 6),
            Card("A30 2g.12gb", 12),
            Card("A100 1g.10gb", 10),
            Card("A100 2g.20gb", 20),
            Card("A100 3g.40gb", 40),
            Card("H200 1g.18gb", 18),
            Card("H200 2g.35gb", 35),
        ),
        source="NVIDIA's MIG guide; AWS HyperPod's documentation",
        date="read in November 2026",
        weights="each profile equally often: an assumption",
    ),
}


def mix_fleet(mix: str, num_clients: int, seed: int, share: float = 1.0) -> Fleet:
    """N devices drawn independently from ``mix``; each client may use ``share`` of what its system leaves.

    Raises:
        InvalidInputError: an unknown mix, or a share outside (0, 1].
    """
    if mix not in MIXES:
        raise InvalidInputError(f"unknown mix {mix!r}; choose one of {', '.join(MIXES)}")
    if not 0 < share <= 1:
        raise InvalidInputError(f"share of the card is {share}; it must be above 0 and at most 1")
    chosen = MIXES[mix]
    weight_C = np.array([card.weight for card in chosen.cards])
    drawn_N = client_rng(num_clients, seed).choice(len(weight_C), size=num_clients, p=weight_C / weight_C.sum())
    gib_C = np.array([card.gib for card in chosen.cards]) - chosen.reserved_gib
    names = tuple(f"client-{n} ({chosen.cards[kind].name})" for n, kind in enumerate(drawn_N))
    return Fleet(names, share * gib_C[drawn_N] * GIB)
