"""A replica on disk, so that a process that lives for one message need not replay the run, nor divide the data again.

    <folder>/state.json                    run, config, seat, round and the base model's SHA-256; written last
    <folder>/weights-<round>.safetensors   every block's weights
    <folder>/rows.safetensors              the client's own rows as tokens

A state that does not fit (another run, a torn file) is not an error: the replica is then opened from the
base, and the server sends all averages.

Shapes: M blocks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from zorba_core.engine.row_kinds import Rows, from_tensors, to_tensors
from zorba_core.federation import messages
from zorba_core.federation.messages import Aggregate, CatchUp, Payload
from zorba_core.federation.replica import Replica
from zorba_core.files import atomic_path, read_json, remove_leftovers, write_json

_STATE, _ROWS = "state.json", "rows.safetensors"


class ReplicaStore:
    """One client's folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder, self._is_clean = Path(folder), False
        self._has_rows = False  # the file has been read whole, or written, by this process

    def _clean(self) -> None:
        """Remove what a process before this one was killed over writing: it may be as large as the model."""
        if not self._is_clean:
            remove_leftovers(self.folder)
            self._is_clean = True

    def save(self, replica: Replica, run: str, seat: int, config: str) -> None:
        """Keep the replica's weights and round. The folder always holds a whole state: the old or the new one."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)  # also one that was there: a client's rows are in it
        self._clean()
        state = self.state()
        if not self._has_rows or (state.get("run"), state.get("seat")) != (run, seat):
            (self.folder / _STATE).unlink(missing_ok=True)  # it does not speak of these rows
            with atomic_path(self.folder / _ROWS) as temporary:
                save_file(to_tensors(replica.rows), temporary)
            self._has_rows = True
        name = f"weights-{replica.round}.safetensors"
        with atomic_path(self.folder / name) as temporary:
            save_file(_kept(replica), temporary)
        whose = {"run": run, "config": config, "seat": seat, "base_sha256": replica.base_sha256}
        write_json(self.folder / _STATE, {**whose, "round": replica.round})
        for old in self.folder.glob("weights-*.safetensors"):
            if old.name != name and not old.is_dir():
                old.unlink(missing_ok=True)

    def state(self) -> dict[str, Any]:
        """The stored state, not yet compared with the files; empty when there is none that can be used."""
        return read_state(self.folder / _STATE, {"run": str, "config": str, "seat": int, "round": int})

    def rows(self, run: str, seat: int) -> Rows | None:
        """The client's rows as kept for this run, or None."""
        state = self.state()
        if state.get("run") != run or state.get("seat") != seat:
            return None
        tensors = _load(self.folder / _ROWS)
        rows = None if tensors is None else from_tensors(tensors)
        self._has_rows = rows is not None
        return rows

    @torch.no_grad()
    def restore(self, replica: Replica, run: str, seat: int) -> bool:
        """Put the kept weights into a replica that stands at the base. False, with nothing done, if they do not fit."""
        self._clean()
        state = self.state()
        if (state.get("run"), state.get("seat"), state.get("base_sha256")) != (run, seat, replica.base_sha256):
            return False
        tensors = _load(self.folder / f"weights-{state['round']}.safetensors")
        own = _kept(replica)
        if tensors is None or any(
            name not in tensors or tensors[name].shape != part.shape or tensors[name].dtype != part.dtype
            for name, part in own.items()
        ):
            return False
        for name, part in own.items():
            part.copy_(tensors[name])
        replica.round = state["round"]
        return True


def read_state(path: Path, fields: Mapping[str, type]) -> dict[str, Any]:
    """What a folder with a replica says of it; empty where it says nothing, or lacks one of ``fields``. Then the
    replica starts at the base, and the server sends what it has missed."""
    try:
        state = read_json(path)
    except (OSError, ValueError):
        return {}
    fits = isinstance(state, dict) and all(type(state.get(name)) is kind for name, kind in fields.items())
    return state if fits else {}


def read_average(content: Any, run: str, round_index: int) -> Aggregate:
    """The average in a file of JSON, which must be that of the run and the round that the file stands for.

    Raises:
        ValueError, TypeError, KeyError, MessageError: it is another, or none.
    """
    catch_up = messages.decode(Payload(content["what"], content["values"]), CatchUp)
    if (catch_up.run, [average.round for average in catch_up.averages]) != (run, [round_index]):
        raise ValueError(f"it does not hold round {round_index} of this run")
    return catch_up.averages[0]


def _kept(replica: Replica) -> dict[str, torch.Tensor]:
    """Every block's weights."""
    return {f"{m}": replica.network.block_weights(m) for m in range(replica.network.num_blocks)}


def _load(path: Path) -> dict[str, torch.Tensor] | None:
    try:
        return load_file(path)
    except (OSError, SafetensorError):
        return None
