"""GPT-2's GELU by one operation: Hugging Face writes it out in eight, each a pass over a block's widest tensor.

x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) has a kernel in PyTorch. That kernel rounds the last few numbers of a
tensor otherwise than the others, where it cannot take as many at once. A row is to have the same bits in any company,
so it is used for widths that leave no such rest (on 1, 2 or 4 threads); the written-out operations have none.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F
from transformers.activations import NewGELUActivation

from zorba_core.planning.pass_widths import is_written_out


class OneGelu(NewGELUActivation):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if is_written_out(x.shape[-1]) else F.gelu(x, approximate="tanh")


def join_gelus(block: nn.Module) -> None:
    """Make the block's GELUs that are written out the one operation."""
    for module in block.modules():
        if type(module) is NewGELUActivation:
            module.__class__ = OneGelu
