"""A method with server state, as somebody else would write it: momentum on the size of the block scalars."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from zorba_core.engine.methods.interface import ScalarMethod


class Momentum(ScalarMethod):
    """Each block's scalars are scaled by how large its scalars have been, smoothed over the rounds."""

    def init(self, num_blocks, settings):
        return {"speed_M": np.ones(num_blocks), "rounds": np.zeros(())}

    def coefficients(self, state, scalars, settings):
        size_M = np.abs(scalars.rho_bar_MQ).mean(axis=1)
        speed_M = 0.9 * state["speed_M"] + 0.1 * size_M
        return scalars.rho_bar_MQ * speed_M[:, None], {"speed_M": speed_M, "rounds": state["rounds"] + 1}


MOMENTUM = Momentum("momentum", "Momentum", "the size of the block scalars carries over", 2, "scalars", True, True)


def on_path(folder: Path) -> str:
    """A PYTHONPATH under which this method is an installed package's: a module and its entry point."""
    (folder / "momentum_plugin-1.dist-info").mkdir(parents=True)
    (folder / "momentum_plugin.py").write_text(Path(__file__).read_text())
    (folder / "momentum_plugin-1.dist-info" / "METADATA").write_text("Name: momentum-plugin\nVersion: 1\n")
    entry = "[zorba.methods]\nmomentum = momentum_plugin:MOMENTUM\n"
    (folder / "momentum_plugin-1.dist-info" / "entry_points.txt").write_text(entry)
    return os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
