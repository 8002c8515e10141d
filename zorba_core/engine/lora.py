"""Which layers get an adapter of low rank (LoRA: Hu et al., 2021). No torch.

    W x + (alpha / r) B A x          A of shape (r, inputs), B of shape (outputs, r)

Shapes: r rank.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zorba_core.errors import InvalidInputError, in_short

# Layers that make queries and values, alone or with keys; the choice of the paper.
DEFAULT_TARGETS = ("q_proj", "v_proj", "c_attn", "query_key_value", "qkv_proj")
EVERY = "all"


@dataclass(frozen=True)
class Lora:
    """Adapters of one run."""

    rank: int
    alpha: float
    targets: tuple[str, ...] = ()  # names of layers; empty: DEFAULT_TARGETS

    def layers(self, names: Iterable[str]) -> list[str]:
        """Which of a block's linear layers get an adapter. A target is the last part or parts of a layer's name.

        Raises:
            InvalidInputError: a target that names no layer.
        """
        names = list(names)
        if self.targets == (EVERY,):
            return names
        targets = self.targets or DEFAULT_TARGETS
        chosen = [name for name in names if any(_names(target, name) for target in targets)]
        unknown = [target for target in targets if not any(_names(target, name) for name in names)]
        if not chosen or (self.targets and unknown):
            raise InvalidInputError(
                f"lora_targets: a block of this model has no linear layer {in_short(unknown[0])}; "
                f"it has {', '.join(names)}; or say {EVERY}"
            )
        return chosen


def _names(target: str, layer: str) -> bool:
    return layer == target or layer.endswith(f".{target}")
