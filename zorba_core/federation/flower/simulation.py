"""Flower's simulation runtime: virtual clients in a process of Ray, for more clients than a machine has room for.

One process serves the run and starts Ray, whose worker plays all clients. Replicas of a run are equal after each round,
so the clients share one, and each has its own rows. Server, protocol and rounds are those of a deployment. Ray passes
our apps to its worker by its own means (pickle), and its processes listen on every interface of the machine: for a
machine that others do not reach.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from zorba_core.errors import MissingDataError
from zorba_core.federation.client import Client
from zorba_core.federation.flower.app_folder import write_request
from zorba_core.federation.flower.client_app import answered, client_settings
from zorba_core.federation.flower.loopback import Loopback
from zorba_core.federation.messages import CATCH_UP, HELLO
from zorba_core.federation.replica import open_replica
from zorba_core.files import read_json, write_json
from zorba_core.runs import Run

_NODES = "simulation.json"  # the clients' --node-config, by seat


def simulate(
    folder: Path,
    config: dict[str, Any],
    nodes: Sequence[Mapping[str, Any]],
    *,
    runs_folder: Path,
    name: str | None = None,
    resume: Path | None = None,
    force: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> Run:
    """Run to the end with one virtual client for each of ``nodes`` (keys of ``--node-config``, by seat). All processes
    are gone when this returns.

    Raises:
        RunError: the server failed or died.
        MissingDataError: Flower or Ray is not installed.
    """
    if find_spec("ray") is None:
        raise MissingDataError(
            "Ray is not installed here: pip install -c constraints.txt torch==2.13.0 -e '.[flower,ray]'"
        )
    write_request(folder, config, runs_folder=runs_folder, name=name, resume=resume, force=force)
    write_json(folder / _NODES, [dict(node) for node in nodes])
    with Loopback(folder) as processes:
        tell(f"{len(nodes)} virtual clients in a process of Ray (its ports are open to the network), logs in {folder}")
        processes.start("simulation", [sys.executable, "-m", __name__, str(folder)])
        return processes.await_run(__name__, tell)


def client_app(folder: Path) -> ClientApp:
    """For the clients that :func:`simulate` described in a folder."""
    app = ClientApp()

    @app.query(HELLO)
    @app.query(CATCH_UP)
    @app.train()
    def answer(message: Message, context: Context) -> Message:
        return answered(message, _virtual_clients(folder)[int(context.node_config["partition-id"])])

    return app


@cache
def _virtual_clients(folder: Path) -> list[Client]:
    """The clients of this process, which live as long as it does."""
    open_once = lru_cache(maxsize=1)(open_replica)
    nodes = read_json(folder / _NODES)
    kept = {"replica": str(folder)}  # nothing is written there: the replica lives in this process
    return [
        Client(client_settings({"seat": seat, **kept, **node})[0], opener=open_once) for seat, node in enumerate(nodes)
    ]


def main(folder: Path) -> None:
    """``python -m zorba_core.federation.flower.simulation FOLDER``: serve the request there."""
    from flwr.serverapp import Grid, ServerApp
    from flwr.simulation import run_simulation

    from zorba_core.federation.flower.server_app import serve_request

    nodes = read_json(folder / _NODES)
    server = ServerApp()

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        serve_request(grid, folder / "request.json")

    run_simulation(
        server,
        client_app(folder),
        num_supernodes=len(nodes),
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": 1, "include_dashboard": False, "_node_ip_address": "127.0.0.1"},
        },
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
