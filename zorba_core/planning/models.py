"""What the VRAM model needs to know about a language model: its number of blocks M, sizes H, K, alpha and parameters d.

No torch here: a Hugging Face ``config.json`` is read as data and its parameters are counted by formula.

Shapes: scalars only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zorba_core.errors import InvalidInputError, MissingDataError, in_short
from zorba_core.planning.parameter_counts import parameter_counts

MAX_CONFIG_BYTES = 1_000_000


@dataclass(frozen=True)
class ModelSpec:
    """A decoder of ``num_blocks`` equal transformer blocks.

    ``num_parameters`` is d, the parameters that every client holds. For OPT-125M and OPT-1.3B the presets carry the
    rounded d that the paper's Table II implies (125.1e6 and 1.3e9), so that its cells come out; a model read from a
    config file carries the exact count.
    """

    name: str
    num_blocks: int  # M
    hidden_size: int  # H
    num_heads: int  # K
    num_parameters: int  # d
    ffn_ratio: float = 4.0  # alpha, feed-forward width over hidden size

    def __post_init__(self) -> None:
        for field in ("num_blocks", "hidden_size", "num_heads", "num_parameters", "ffn_ratio"):
            value = getattr(self, field)
            if not value > 0:
                raise InvalidInputError(f"model {self.name!r}: {field} is {value}; it must be positive")


PRESETS: Mapping[str, ModelSpec] = {
    spec.name: spec
    for spec in (
        ModelSpec("opt-125m", num_blocks=12, hidden_size=768, num_heads=12, num_parameters=125_100_000),
        ModelSpec("opt-350m", num_blocks=24, hidden_size=1024, num_heads=16, num_parameters=331_196_416),
        ModelSpec("opt-1.3b", num_blocks=24, hidden_size=2048, num_heads=32, num_parameters=1_300_000_000),
        ModelSpec("opt-2.7b", num_blocks=32, hidden_size=2560, num_heads=32, num_parameters=2_651_596_800),
        ModelSpec("opt-30b", num_blocks=48, hidden_size=7168, num_heads=56, num_parameters=29_974_540_288),
    )
}


def model_spec(name_or_path: str | os.PathLike[str]) -> ModelSpec:
    """A preset by name (``opt-1.3b``), or the model of a Hugging Face folder or ``config.json`` by path.

    Raises:
        InvalidInputError: the name is no preset and no path, or the file is not a config this package can count.
        MissingDataError: a folder without ``config.json``.
    """
    key = str(name_or_path).lower().removeprefix("facebook/")
    if key in PRESETS:
        return PRESETS[key]
    path = _config_path(name_or_path)
    name = path.parent.name if path.name == "config.json" else path.stem
    return spec_from_config(_read_config(path), name=name or str(path))


def config_of(folder_or_file: str | os.PathLike[str]) -> Mapping[str, Any]:
    """The parsed ``config.json`` of a Hugging Face folder.

    Raises:
        InvalidInputError, MissingDataError: as :func:`model_spec`.
    """
    return _read_config(_config_path(folder_or_file))


def _config_path(folder_or_file: str | os.PathLike[str]) -> Path:
    path = Path(folder_or_file)
    if os.path.isdir(path):
        path = path / "config.json"
        if not path.is_file():
            raise MissingDataError(
                f"model folder {str(folder_or_file)!r} has no config.json; give a Hugging Face folder"
            )
    if not os.path.isfile(path):
        raise InvalidInputError(
            f"unknown model {in_short(str(folder_or_file), 200)}; choose one of {', '.join(PRESETS)}, "
            "or give the path of a Hugging Face folder or config.json"
        )
    return path


def spec_from_config(config: Mapping[str, Any], name: str) -> ModelSpec:
    """The :class:`ModelSpec` of a parsed Hugging Face config, its parameters counted exactly.

    Raises:
        InvalidInputError: an unknown ``model_type``, or a field missing or not a positive integer.
    """
    counts = parameter_counts(config, name)
    return ModelSpec(name, counts.blocks, counts.hidden, counts.heads, counts.all, counts.ffn / counts.hidden)


def _read_config(path: Path) -> Mapping[str, Any]:
    size = path.stat().st_size
    if size > MAX_CONFIG_BYTES:
        raise InvalidInputError(f"{path}: {size} bytes is too large for a model config (limit {MAX_CONFIG_BYTES})")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise InvalidInputError(f"{path}: not JSON; give a Hugging Face config.json") from None
    if not isinstance(config, dict):
        raise InvalidInputError(f"{path}: a model config must be a JSON object, not a {type(config).__name__}")
    return config
