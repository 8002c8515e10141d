"""The folder that ``flwr run`` takes: modules that name our apps, and where the request lies.

It is made for each run and holds no code of its own: what runs on a client is what its operator installed. It asks for
no package but Flower.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from zorba_core.files import write_json, write_text

_PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "zorba-federation"
version = "1.0.0"
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


def write_request(
    folder: Path,
    config: dict[str, Any],
    *,
    runs_folder: str | os.PathLike[str],
    name: str | None = None,
    resume: str | os.PathLike[str] | None = None,
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
        "force": force,
    }
    write_json(folder / "request.json", request)
    return folder / "request.json"


def write_app(request: Path) -> Path:
    """Write the app beside the request that it is to serve; returns the app's folder, for ``flwr run``."""
    app = request.parent / "app"
    # TOML takes JSON's texts, but for letters as pairs of escapes, and DEL as it is.
    place = json.dumps(str(request), ensure_ascii=False).replace("\x7f", "\\u007f")
    write_text(app / "pyproject.toml", _PYPROJECT.format(request=place))
    for side in ("server", "client"):
        write_text(app / f"zorba_{side}.py", _MODULE.format(side=side))
    return app
