"""A replica on disk: Flower starts a process for each message, and none of them replays the run or divides the data.

    <folder>/replica.safetensors   every block's weights; run, seat, round, base and config in the file's metadata
    <folder>/rows.safetensors      the client's own rows as tokens

Files that do not fit (another run, another base, damaged) are no error: the replica is then opened from the base, and
the server sends all averages.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from zorba_core.engine.rows import Rows
from zorba_core.federation.replica import Replica
from zorba_core.files import atomic_path, remove_leftovers

_REPLICA, _ROWS = "replica.safetensors", "rows.safetensors"


class ReplicaStore:
    """One client's folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def save(self, replica: Replica, run: str, seat: int, config: str) -> None:
        """Keep the replica's weights and round. The file is always whole: the old or the new one."""
        weights = {f"{m}": replica.network.block_weights(m) for m in range(replica.network.num_blocks)}
        stands = {"round": f"{replica.round}", "base_sha256": replica.base_sha256, "config": config}
        self._write(_REPLICA, weights, {"run": run, "seat": f"{seat}", **stands})

    def save_rows(self, rows: Rows, run: str, seat: int) -> None:
        self._write(_ROWS, rows.tensors(), {"run": run, "seat": f"{seat}"})

    def state(self) -> dict[str, str]:
        """What the file of the replica says of it; empty where there is none that can be read."""
        return self._metadata(_REPLICA)

    def rows(self, run: str, seat: int) -> Rows | None:
        """The client's rows as kept for this run, or None."""
        fits = self._metadata(_ROWS) == {"run": run, "seat": f"{seat}"}
        return Rows(**load_file(self.folder / _ROWS)) if fits else None

    @torch.no_grad()
    def restore(self, replica: Replica, run: str, seat: int) -> bool:
        """Put the kept weights into a replica that stands at the base. False, with nothing done, if they do not fit."""
        state = self.state()
        if (state.get("run"), state.get("seat"), state.get("base_sha256")) != (run, f"{seat}", replica.base_sha256):
            return False
        weights = load_file(self.folder / _REPLICA)
        for m in range(replica.network.num_blocks):
            replica.network.block_weights(m).copy_(weights[f"{m}"])
        replica.round = int(state["round"])
        return True

    def _write(self, name: str, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # a client's rows are in it
        remove_leftovers(self.folder)  # of a process that was killed over writing
        with atomic_path(self.folder / name) as temporary:
            save_file(tensors, temporary, metadata)

    def _metadata(self, name: str) -> dict[str, str]:
        try:
            with safe_open(self.folder / name, "pt") as file:
                return file.metadata() or {}
        except (OSError, SafetensorError):
            return {}
