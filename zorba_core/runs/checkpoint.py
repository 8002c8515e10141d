"""Weights on disk: what a method needs whose log cannot give them back, and what keeps a long run's replay short.

A run whose log has every update writes them every ``ROUNDS_APART`` rounds, at an evaluation, over those before; resume
and replay then begin there instead of at the base model, so their time does not grow with the run. Such a file is a
convenience: without it the log alone gives the same bits. It stays when the run ends.

FedIT exchanges weights, not scalars:

At every evaluation the blocks' weights are written to ``checkpoint.safetensors`` in the run's folder, whole or not at
all, after the log has the evaluation with their fingerprint. A resumed run starts from them and cuts its log back to
that round: the rounds after it are computed again (from the same batches, so on a CPU to the same bits). A run that
ends by itself removes the file; ``--save-model`` keeps the final model.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from zorba_core.engine.blocks import Blocks
from zorba_core.engine.callbacks import Callback
from zorba_core.engine.records import EvaluationEntry
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.files import atomic_path
from zorba_core.runs.trajectory import Trajectory

CHECKPOINT = "checkpoint.safetensors"
ROUNDS_APART = 1000


class Checkpoint(Callback):
    """Writes the weights at every evaluation but that of the base model, or at those ``apart`` rounds from the last.

    Raises:
        RunError: while writing: the disk is full, or fails. The checkpoint before stays.
    """

    def __init__(self, folder: Path, network: Blocks, apart: int = 1) -> None:
        self._path, self._network, self._apart = folder / CHECKPOINT, network, apart
        self._latest = checkpoint_round(folder) if apart > 1 else 0

    def on_evaluation(self, entry: EvaluationEntry) -> None:
        if entry.round - self._latest >= self._apart or 0 < entry.round < self._latest:
            weights = {_name(m): self._network.block_weights(m) for m in range(self._network.num_blocks)}
            try:
                with atomic_path(self._path) as temporary:
                    save_file(weights, temporary, metadata={"round": str(entry.round)})
            except (OSError, SafetensorError) as error:
                raise RunError(f"{self._path} cannot be written ({error}); make room and resume the run") from None
            if self._apart > 1:
                self._latest = entry.round

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


def checkpoint_round(folder: Path) -> int:
    """The round that the folder's checkpoint is of; 0, the base, where there is none.

    Raises:
        InvalidInputError: the file is damaged.
    """
    if not (folder / CHECKPOINT).is_file():
        return 0
    try:
        with safe_open(folder / CHECKPOINT, "pt") as file:
            return int((file.metadata() or {})["round"])
    except (SafetensorError, KeyError, ValueError, OSError):
        raise _damaged(folder) from None


@torch.no_grad()
def restore(folder: Path, network: Blocks, trajectory: Trajectory) -> int:
    """Put the checkpoint's weights into the network, which holds the base's; the round that they are of.

    Raises:
        InvalidInputError: the file is damaged, or its weights are not those that the log saw in that round.
    """
    round_index = checkpoint_round(folder)
    if round_index == 0:
        return 0
    proof = {entry.round: entry.weights_sha256 for entry in trajectory.evaluations}
    try:
        with safe_open(folder / CHECKPOINT, "pt") as file:
            for m in range(network.num_blocks):
                network.block_weights(m).copy_(file.get_tensor(_name(m)))
    except (SafetensorError, RuntimeError, OSError):
        raise _damaged(folder) from None
    if network.weights_sha256() != proof.get(round_index):
        raise _damaged(folder)
    return round_index


def _name(block: int) -> str:
    return f"block.{block}"


def _damaged(folder: Path) -> InvalidInputError:
    return InvalidInputError(
        f"{folder / CHECKPOINT} does not hold the weights that the run's log saw; restore it from a copy, or remove it "
        "to start again from the base model"
    )
