"""Flower's tasks in one long-lived process: a SuperNode whose ClientApp stays loaded, and a ServerApp that can show its
progress in the terminal.

Flower starts a process for each message and for the ServerApp. Each would import PyTorch, which takes some CPU seconds,
and build the replica again. With Flower's isolation mode ``process`` this module does the tasks instead: it gets a task
from the Runtime API of the SuperNode (or SuperLink), computes it, and returns the answer, like ``flwr-clientapp``.

    python -m zorba_core.federation.resident --superlink HOST:PORT --node-config "partition-id=0 rows='mine.csv'" ...

takes all options of ``flower-supernode``. It also shortens two waits of Flower 1.41 that no option sets: 3 seconds
between two polls for a message, and 1 second for a part of a message that has not arrived yet.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator

import httpx
from flwr.app import Context, Message
from flwr.app.error import Error
from flwr.clientapp import ClientApp
from flwr.common.config import get_fused_config_from_fab
from flwr.common.constant import ErrorCode, SubStatus
from flwr.common.serde import context_from_proto, fab_from_proto, run_from_proto
from flwr.proto.runtime_pb2 import AcquireTaskRequest, PullTaskInputRequest, PushTaskOutputRequest
from flwr.serverapp import Grid
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.inflatable.inflatable_utils import pull_objects
from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor, RuntimeVersionHttpInterceptor
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid.http_grid import HttpGrid
from flwr.supernode import start_client_internal
from flwr.supernode.cli import flower_supernode
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from zorba_core.lazy import without_collection

_LOOK = 0.25  # seconds between two polls for a message
_WAIT = 0.05  # seconds between two polls on this machine
_task_is_due = threading.Event()
_computing = threading.Lock()


def shorten_waits() -> None:
    """Shorten Flower's two waits (see the module's docstring) in this process."""

    def sleep(seconds: float) -> None:
        if seconds > 1:  # no message has arrived
            return time.sleep(_LOOK)
        _task_is_due.set()  # a message has arrived, and the SuperNode polls for its answer
        time.sleep(_WAIT)

    start_client_internal.time = types.SimpleNamespace(sleep=sleep)
    pull_objects.__kwdefaults__["initial_backoff"] = _WAIT


def serve_task(address: str, main: Callable[[Grid, Context], None]) -> None:
    """Call ``main`` with the grid and context of a SuperLink's next ServerApp task. The SuperLink is on this machine
    and has the isolation mode ``process``."""
    grid = HttpGrid(address, insecure=True, token=next(_tokens(address, TaskType.SERVER_APP)))
    client, status = grid._runtime_client, SubStatus.FAILED
    heartbeat = HeartbeatSender(make_task_heartbeat_fn_http(client))
    heartbeat.start()
    try:
        given = client.PullTaskInput(PullTaskInputRequest())
        context, run = context_from_proto(given.context), run_from_proto(given.run)
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = given.task_id, run.run_id, context.node_id
        context.run_config = get_fused_config_from_fab(fab_from_proto(given.fab).content, run)
        grid.set_run(run)
        main(grid, context)
        status = SubStatus.COMPLETED
    finally:
        with contextlib.suppress(httpx.HTTPError):  # the SuperLink may have ended
            client.PushTaskOutput(PushTaskOutputRequest(sub_status=status))
        heartbeat.stop()
        grid.close()


def answer_tasks(address: str, app: ClientApp) -> None:
    """Compute a SuperNode's ClientApp tasks, one at a time, for ever. Each task has a thread, because a task whose run
    ends before the whole message has arrived waits for ever."""
    while True:
        try:
            for token in _tokens(address, TaskType.CLIENT_APP):
                client = _client(address, "flwr-clientapp", token)
                threading.Thread(target=_answer_task, args=(client, app), daemon=True).start()
        except httpx.HTTPError:
            time.sleep(_LOOK)  # the SuperNode is not listening yet


def _answer_task(client: RuntimeHttpClient, app: ClientApp) -> None:
    heartbeat = HeartbeatSender(make_task_heartbeat_fn_http(client))
    heartbeat.start()
    context, status, details = None, SubStatus.FAILED, ""
    try:
        message, context, *_ = pull_task_input(client)
        try:
            with _computing:
                answer = app(message=message, context=context)
            status = SubStatus.COMPLETED
        except Exception as error:  # sent to the server; the next task may succeed
            traceback.print_exc()
            details = f"{type(error).__name__}: {error}"
            answer = Message(Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=details), reply_to=message)
        push_message(client, answer, context)
    finally:
        push_task_output(client, context, status, details)
        heartbeat.stop()
        client.close()


def _tokens(address: str, kind: TaskType) -> Iterator[str]:
    """Yield the token of each task of a Runtime API."""
    client = _client(address, "SuperExec")
    while True:
        acquired = client.AcquireTask(AcquireTaskRequest(supported_task_types=[kind]))
        if acquired.HasField("task") and acquired.token:
            yield acquired.token
        else:
            _task_is_due.wait(_LOOK if kind == TaskType.SERVER_APP else 1.0)
            _task_is_due.clear()


def _client(address: str, name: str, token: str | None = None) -> RuntimeHttpClient:
    interceptors = [RuntimeVersionHttpInterceptor(component_name=name)]
    if token is not None:
        interceptors.append(RuntimeTokenHttpInterceptor(token))
    return RuntimeHttpClient.from_server_address(
        server_address=address,
        insecure=True,
        root_certificates=None,
        interceptors=interceptors,
    )


def main() -> None:
    """``flower-supernode`` whose ClientApp stays loaded. Its Runtime API listens on this machine only."""
    reader = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    reader.add_argument("--host", default="127.0.0.1")
    reader.add_argument("--port", default="9094")
    place, rest = reader.parse_known_args()
    sys.argv = ["flower-supernode", *rest, "--host", place.host, "--port", place.port, "--isolation", "process"]
    if {"-h", "--help"} & {*rest}:
        return flower_supernode()
    shorten_waits()

    def work() -> None:
        with without_collection():
            from zorba_core.federation import client_app  # PyTorch loads while the SuperNode connects

        client_app.RESIDENT = True
        answer_tasks(f"{place.host}:{place.port}", client_app.app)

    threading.Thread(target=work, daemon=True).start()
    flower_supernode()


if __name__ == "__main__":
    main()
