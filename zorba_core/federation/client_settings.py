"""What one client's operator decides."""

from __future__ import annotations

from dataclasses import dataclass

from zorba_core.errors import InvalidInputError, in_short
from zorba_core.vram import GIB, MAX_VRAM_GIB


@dataclass(frozen=True)
class ClientSettings:
    """What one client's operator decides.

    Raises:
        InvalidInputError: neither a number of blocks nor an amount of VRAM, or a value out of range.
    """

    seat: int
    blocks: int = 0  # most blocks it will activate; 0: by vram_bytes
    vram_bytes: int = 0  # that it can spare; 0 and no blocks: the GPU's free memory is measured
    model: str | None = None  # the base model's folder here; None: only a model that comes with this package
    rows: str | None = None  # the file with this client's rows; None: its share of a built-in dataset
    device: str = "cpu"
    threads: int = 1

    def __post_init__(self) -> None:
        if self.seat < 0:
            raise InvalidInputError(f"seat is {self.seat}; it must be at least 0")
        if self.blocks < 0 or self.vram_bytes < 0 or (self.blocks and self.vram_bytes):
            raise InvalidInputError("give either blocks or vram_bytes, above 0")
        if self.vram_bytes > MAX_VRAM_GIB * GIB:
            raise InvalidInputError(
                f"vram_bytes is {in_short(self.vram_bytes)}; at most {MAX_VRAM_GIB:g} GiB are taken"
            )
        if not (self.blocks or self.vram_bytes) and self.device != "cuda":
            raise InvalidInputError("without a GPU to measure, give blocks or vram_bytes")

    def capacity(self) -> tuple[int, int]:
        """(blocks, bytes), one of them 0. Free GPU memory is measured when nothing was given."""
        if self.blocks or self.vram_bytes:
            return self.blocks, self.vram_bytes
        import torch

        return 0, int(torch.cuda.mem_get_info()[0])
