"""A replica on disk, so that a process that lives for one message need not replay the run, nor divide the data again.

    <folder>/state.json                    run, config, seat, round, and the SHA-256 of the files below; written last
    <folder>/weights-<round>.safetensors   every block's weights
    <folder>/rows.safetensors              the client's own rows as tokens

A state that does not fit (another run, a torn or altered file) is not an error: the replica is then opened from the
base, and the server sends all averages.

Shapes: M blocks.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from zorba_core.engine.row_kinds import Rows, from_tensors, to_tensors
from zorba_core.federation.replica import Replica
from zorba_core.files import atomic_path, write_json

_STATE, _ROWS = "state.json", "rows.safetensors"


class ReplicaStore:
    """One client's folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def save(self, replica: Replica, run: str, seat: int, config: str) -> None:
        """Keep the replica's weights and round. The folder always holds a whole state: the old or the new one."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        state = self.state()
        if state.get("run") != run or state.get("seat") != seat or "rows_sha256" not in state:
            with atomic_path(self.folder / _ROWS) as temporary:
                save_file(to_tensors(replica.rows), temporary)
            state = {"rows_sha256": _sha256(self.folder / _ROWS)}
        name = f"weights-{replica.round}.safetensors"
        weights = {f"{m}": replica.network.block_weights(m) for m in range(replica.network.num_blocks)}
        with atomic_path(self.folder / name) as temporary:
            save_file(weights, temporary)
        state = {
            "run": run,
            "config": config,
            "seat": seat,
            "round": replica.round,
            "base_sha256": replica.base_sha256,
            "weights_sha256": _sha256(self.folder / name),
            "rows_sha256": state["rows_sha256"],
        }
        write_json(self.folder / _STATE, state)
        for old in self.folder.glob("weights-*.safetensors"):
            if old.name != name:
                old.unlink(missing_ok=True)

    def state(self) -> dict[str, Any]:
        """The stored state, not yet verified; empty when there is none."""
        try:
            state = json.loads((self.folder / _STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    def rows(self, run: str, seat: int) -> Rows | None:
        """The client's rows as kept for this run, or None."""
        state = self.state()
        if state.get("run") != run or state.get("seat") != seat:
            return None
        tensors = _load(self.folder / _ROWS, state.get("rows_sha256"))
        return None if tensors is None else from_tensors(tensors)

    @torch.no_grad()
    def restore(self, replica: Replica, run: str, seat: int) -> bool:
        """Put the kept weights into a replica that stands at the base. False, with nothing done, if they do not fit."""
        state = self.state()
        if (state.get("run"), state.get("seat"), state.get("base_sha256")) != (run, seat, replica.base_sha256):
            return False
        round_index = state.get("round")
        if type(round_index) is not int or round_index < 0:
            return False
        tensors = _load(self.folder / f"weights-{round_index}.safetensors", state.get("weights_sha256"))
        network = replica.network
        if tensors is None or any(
            f"{m}" not in tensors
            or tensors[f"{m}"].shape != network.block_weights(m).shape
            or tensors[f"{m}"].dtype != network.block_weights(m).dtype
            for m in range(network.num_blocks)
        ):
            return False
        for m in range(network.num_blocks):
            network.block_weights(m).copy_(tensors[f"{m}"])
        replica.round = round_index
        return True


def _load(path: Path, sha256: str | None) -> dict[str, torch.Tensor] | None:
    try:
        if _sha256(path) != sha256:
            return None
        return load_file(path)
    except (OSError, SafetensorError):
        return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
