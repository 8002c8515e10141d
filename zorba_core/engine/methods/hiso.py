"""HiSo: DeComFL along directions that a diagonal curvature scales, learned from the scalars alone.

Li, Ying, Liu, Dong, Yang: "Converge Faster, Talk Less: Hessian-Informed Federated Zeroth-Order Optimization",
arXiv:2506.02370. A direction is H^(-1/2) v with v as usual, a step

    dx = (1/Q) sum_q rho_bar_q H^(-1/2) v_q,    w <- w - lr dx,    H <- (1 - nu) H + nu dx^2    (number by number),

and H is 1 at first. Every replica computes dx for its weights anyway, so H costs a number a parameter of memory and
nothing on the wire: the messages are DeComFL's.

What differs from the paper: clients make one step a round (its tau = 1), the mean of the clients' scalars makes the
step (not their reconstructed models, which is the same then), and H moves once a round. Its nu is given by
``--curvature-rate``. Where no client reported, neither weights nor H move.

Shapes: D_m parameters of block m.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from zorba_core.engine.directions import Directions, directions_of
from zorba_core.engine.methods.interface import ScalarMethod
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.scaled_directions import ScaledDirections
from zorba_core.engine.settings import TrainSettings


class HiSo(ScalarMethod):
    """The coefficients are the plain averages; the curvature is in the directions."""

    def directions(self, network: BlockNetwork, settings: TrainSettings) -> Directions:
        plain = directions_of(network, settings)
        scale_M = [torch.ones(size, dtype=plain.dtype, device=plain.device) for size in network.sizes_M]
        return ScaledDirections(plain, scale_M, "hiso", partial(learn_curvature, settings.curvature_rate))


def learn_curvature(rate: float, scale: Tensor, step: Tensor) -> None:
    """scale = H^(-1/2) of one block, after H <- (1 - rate) H + rate step^2, in place."""
    curvature = scale.pow(-2).mul_(1 - rate).add_(step.square().mul_(rate))
    scale.copy_(curvature.rsqrt_())
