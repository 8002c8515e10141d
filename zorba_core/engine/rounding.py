"""How an update meets weights that are kept in 16 bits (``dtype`` bfloat16, 8 bits of mantissa).

An update is far smaller than the distance between two neighbouring bfloat16 numbers: rounded to the nearest one, most
of it is lost, in every round again. Rounded stochastically, up with the probability of the share of the distance that
it has gone, it is kept in the mean. The random bits are counter-based noise of a kind of their own, keyed by run and
round, block and element (:func:`zorba_core.engine.noise.rounding_bits`), so every replica of the weights, in whatever
process, rounds alike, and no copy in 32 bits is needed.

Weights in the network's own dtype take an update as they always did.

Shapes: D_m parameters of block m, E of a piece of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from zorba_core.engine import noise
from zorba_core.engine.randomness import stream

if TYPE_CHECKING:
    from zorba_core.engine.settings import TrainSettings

PIECE_CPU, PIECE_ELSEWHERE = 2**17, 2**22  # elements rounded at a time


@dataclass(frozen=True)
class Rounding:
    """What all replicas agree on about the rounding of one round's update."""

    kind: str  # "stochastic" or "nearest"
    seed: int  # 64 bits


def rounding_of(settings: TrainSettings, round_index: int) -> Rounding:
    """The rounding of round t: the same for the server, every client, and a run that is resumed or replayed."""
    seed = stream("rounding", settings.seed, round_index).integers(2**64, dtype=np.uint64)
    return Rounding(settings.rounding, int(seed))


def subtract(weights_D: Tensor, step_D: Tensor, scale: float, block: int, rounding: Rounding | None) -> None:
    """weights -= scale * step, in place. Weights of 16 bits are rounded as ``rounding`` says; one whose step is zero
    keeps its bits.

    Raises:
        ValueError: weights of 16 bits, and no rounding given.
    """
    if weights_D.dtype == step_D.dtype:
        weights_D.sub_(step_D, alpha=scale)
        return
    if rounding is None:
        raise ValueError(f"weights are {weights_D.dtype}: say how an update is rounded (rounding_of(settings, round))")
    size = PIECE_CPU if weights_D.device.type == "cpu" else PIECE_ELSEWHERE
    for start in range(0, len(weights_D), size):
        here = slice(start, min(start + size, len(weights_D)))
        # Multiplied, then subtracted: not fused, so that every device has the same 32 bits to round.
        moved_E = weights_D[here].float().sub_(step_D[here].mul(scale))
        if rounding.kind == "stochastic":
            weights_D[here] = stochastically(
                moved_E, noise.rounding_bits(rounding.seed, block, here.start, here.stop, moved_E.device)
            )
        else:
            weights_D[here] = moved_E.bfloat16()


def stochastically(values_E: Tensor, bits_E: Tensor) -> Tensor:
    """float32 to bfloat16, away from zero with the probability of the share of the way there.

    A bfloat16 is the upper half of a float32. Adding 16 random bits to the lower half carries into the upper one with
    just that probability, for either sign; what is left of the lower half is dropped. Infinities stay, and so does a
    NaN as arithmetic makes it.

    Args:
        bits_E: int32, 0..65535.
    """
    return values_E.view(torch.int32).add(bits_E).bitwise_right_shift_(16).to(torch.int16).view(torch.bfloat16)
