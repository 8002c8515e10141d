"""The folder that ``flwr run`` takes: modules that name our apps, and where the request lies.

It is made for each run and holds no code of its own, so what runs on a client is what its operator installed; a client
checks that (:func:`check_app`). It asks for no package but Flower: with runtime installation switched off, nothing is
fetched anyway.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tomllib
import zipfile
import zlib
from pathlib import Path
from typing import Any

from zorba_core.checksums import write_sealed
from zorba_core.errors import InvalidInputError
from zorba_core.files import write_text

APP_ID, APP_VERSION = "zorba/zorba-federation", "1.0.0"
_PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "zorba-federation"
version = "{version}"
description = "Zeroth-order federated fine-tuning: seeds down, scalars up"
license = "Apache-2.0"
dependencies = ["flwr"]

[tool.flwr.app]
publisher = "zorba"

[tool.flwr.app.components]
serverapp = "zorba_server:app"
clientapp = "zorba_client:app"

[tool.flwr.app.config]
request = {request}
"""

# Two modules, so that each side imports its own half only.
_MODULE = """\
from zorba_core.federation.flower import {side}_app

app = {side}_app.app
"""


_SIDES = ("server", "client")
_LISTED = ".info/CONTENT"  # Flower's list of the files
_MOST_BYTES = 16_384  # of a file


def write_request(
    folder: str | os.PathLike[str],
    config: dict[str, Any],
    *,
    runs_folder: str | os.PathLike[str],
    name: str | None = None,
    resume: str | os.PathLike[str] | None = None,
    model: str | None = None,
    force: bool = False,
) -> Path:
    """What the server is to do, as a file below ``folder``, which stays on the server's machine. The result of an
    earlier server is removed.

    ``config`` is that of ``zorba_core.federation.request.request_config``.
    """
    folder = Path(folder).resolve()
    (folder / "result.json").unlink(missing_ok=True)
    request = {
        "config": config,
        "runs_folder": str(Path(runs_folder).resolve()),
        "name": name,
        "resume": None if resume is None else str(Path(resume).resolve()),
        "model": model,
        "force": force,
    }
    write_sealed(folder / "request.json", request)
    return folder / "request.json"


def write_app(request: Path) -> Path:
    """Write the app beside the request that it is to serve; returns the app's folder, for ``flwr run``."""
    app = request.parent / "app"
    for name, text in _files(str(request)).items():
        write_text(app / name, text)
    return app


def check_app(content: bytes) -> None:
    """Compare an app that a server sent with the one that :func:`write_app` writes, without unpacking it.

    Raises:
        InvalidInputError: it has other files, other code or other settings than the place of the server's request.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            if not {entry.compress_type for entry in packed.infolist()} <= {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
                raise InvalidInputError("its app is compressed in another way than Flower's")
            sizes = [(entry.filename, entry.file_size) for entry in packed.infolist()]
            if sorted(name for name, _ in sizes) != sorted([_LISTED, *_files("")]):
                raise InvalidInputError(f"its app has the files {', '.join(name for name, _ in sizes)[:200]}")
            if max(size for _, size in sizes) > _MOST_BYTES:
                raise InvalidInputError("a file of its app is too large")
            texts = {name: packed.read(name).decode() for name in _files("")}
            listed = packed.read(_LISTED).decode().split("\n")
        sums = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
        if sorted(listed) != sorted(f"{name},{sums[name]},{8 * len(text.encode())}" for name, text in texts.items()):
            raise InvalidInputError("its app lists other files")  # which Flower would open
        settings = tomllib.loads(texts.pop("pyproject.toml"))
        request = settings["tool"]["flwr"]["app"]["config"]["request"]
    except (zipfile.BadZipFile, zlib.error, ValueError, KeyError, TypeError, EOFError, OSError, RuntimeError):
        raise InvalidInputError("its app cannot be read") from None
    expected = _files("")
    known = tomllib.loads(expected.pop("pyproject.toml"))
    known["tool"]["flwr"]["app"]["config"]["request"] = request if isinstance(request, str) else ""
    if settings != known:
        raise InvalidInputError("its app has other settings")
    if texts != expected:
        raise InvalidInputError("its app has other code")


def _files(request: str) -> dict[str, str]:
    modules = {f"zorba_{side}.py": _MODULE.format(side=side) for side in _SIDES}
    # TOML takes JSON's texts, but for letters as pairs of escapes, and DEL as it is.
    text = json.dumps(request, ensure_ascii=False).replace("\x7f", "\\u007f")
    return {"pyproject.toml": _PYPROJECT.format(version=APP_VERSION, request=text), **modules}
