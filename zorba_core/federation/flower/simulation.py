"""Flower's simulation runtime: virtual clients in a few processes of Ray, for more clients than a machine has room for.

One process serves the run and starts Ray; each of Ray's workers plays many clients that share one replica
(:mod:`zorba_core.federation.shared_replica`). Server, protocol and rounds are those of a deployment. Ray passes our
apps to its workers by its own means (pickle), and its processes listen on every interface of the machine, whatever
address it is given: for a machine that others do not reach.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.federation.flower.app_folder import write_request
from zorba_core.federation.flower.deployment import Deployment, ended_by_signals
from zorba_core.federation.flower.loopback import Tail, await_result, finished
from zorba_core.files import read_json, write_json
from zorba_core.runs import Run

NODES = "simulation.json"  # {"nodes": the clients' --node-config, by seat; "workers": how many processes}
_PROCESS = "simulation"


def simulate(
    folder: Path,
    config: dict[str, Any],
    nodes: Sequence[Mapping[str, Any]],
    *,
    runs_folder: Path,
    workers: int = 1,
    name: str | None = None,
    resume: Path | None = None,
    force: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> Run:
    """Run to the end with one virtual client for each of ``nodes`` (keys of ``--node-config``, by seat).

    ``workers`` processes play them, one message at a time each. All processes are gone when this returns.

    Raises:
        RunError: the server failed or died.
        MissingDataError: Flower or Ray is not installed.
    """
    if find_spec("ray") is None:
        raise MissingDataError(
            "Ray is not installed here: pip install -c constraints.txt torch==2.13.0 -e '.[flower,ray]'"
        )
    if workers < 1:
        raise InvalidInputError(f"workers is {workers}; it must be at least 1")
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    write_request(folder, config, runs_folder=runs_folder, name=name, resume=resume, force=force)
    write_json(folder / NODES, {"nodes": [dict(node) for node in nodes], "workers": workers})
    lines = Tail(folder / "server.log")
    with ended_by_signals(), Deployment(folder) as deployment:
        tell(f"{len(nodes)} virtual clients, {workers} of Ray's processes (its ports are open to the network)")
        tell(f"logs in {folder}")
        deployment.start(_PROCESS, [sys.executable, "-m", __name__, folder])
        result = await_result(deployment, folder, lambda: lines.tell(tell), process=_PROCESS)
    lines.tell(tell)
    return finished(result)


def read_nodes(folder: Path) -> tuple[list[dict[str, Any]], int]:
    """The clients of a simulation as :func:`simulate` wrote them, and how many processes play them.

    Raises:
        InvalidInputError: the file is not there, damaged, or holds something else.
    """
    path, anew = folder / NODES, "start the simulation again, which writes it anew"
    try:
        content = read_json(path)
        return content["nodes"], content["workers"]
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror}; {anew}") from None
    except (ValueError, TypeError, KeyError):
        raise InvalidInputError(f"{path}: not the clients of a simulation, the file is damaged; {anew}") from None


def main(arguments: list[str]) -> None:
    """``python -m zorba_core.federation.flower.simulation FOLDER``: serve the request there."""
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp
    from flwr.simulation import run_simulation

    from zorba_core.federation.flower.server_app import serve_request
    from zorba_core.federation.flower.virtual_clients import client_app

    folder = Path(arguments[0])
    try:
        nodes, workers = read_nodes(folder)
    except InvalidInputError as error:  # whoever started this process waits for the result
        result = {"state": "failed", "error": str(error), "exit_status": error.exit_status}
        write_json(folder / "result.json", result)
        return
    server = ServerApp()

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        serve_request(grid, folder / "request.json")

    run_simulation(
        server,
        client_app(str(folder)),
        num_supernodes=len(nodes),
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": workers, "include_dashboard": False, "_node_ip_address": "127.0.0.1"},
        },
    )


if __name__ == "__main__":
    main(sys.argv[1:])
