"""Flower's tasks in one long-lived process, with modules outside of Flower's public API: all such modules are here.

Flower starts a process for each message, which imports PyTorch and builds the replica again; no public option changes
that. With isolation mode ``process`` this module does the tasks: it gets a task from the Runtime API of the SuperNode
or the SuperLink, computes it, and returns the answer. It also shortens a wait that no option sets. If Flower has
changed inside, :data:`OFF` says so, and Flower's own processes do the work: slower, with the same bits.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any

import httpx
from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

_LOOK = 0.2  # seconds between two polls for a message
_computing = threading.Lock()
OFF = ""  # why this module does nothing
try:
    from flwr.common.config import get_fused_config_from_fab
    from flwr.proto.runtime_pb2 import AcquireTaskRequest
    from flwr.supercore.constant import TaskType
    from flwr.superlink.grid.http_grid import HttpGrid

    start_client_internal: Any = importlib.import_module("flwr.supernode.start_client_internal")
    inside: Any = importlib.import_module("flwr.supernode.runtime.run_clientapp")
except ImportError as error:
    OFF = f"Flower has changed inside ({error}): it starts a process for each message, which is slower"


def shorten_waits() -> None:
    """In this process a SuperNode looks for messages five times a second, not every 3 seconds."""
    start_client_internal.time = types.SimpleNamespace(sleep=lambda seconds: time.sleep(min(seconds, _LOOK)))


def serve_task(address: str, main: Callable[[Grid, Context], None]) -> None:
    """Call ``main`` with the grid and context of the next ServerApp task of a SuperLink on this machine."""
    grid = HttpGrid(address, insecure=True, token=next(_tokens(address, TaskType.SERVER_APP)))
    client, status, identity = grid._runtime_client, inside.SubStatus.FAILED, inside.TaskIdentity
    heartbeat = _heartbeat(client)
    try:
        given = client.PullTaskInput(inside.PullTaskInputRequest())
        context, run = inside.context_from_proto(given.context), inside.run_from_proto(given.run)
        identity.task_id, identity.run_id, identity.node_id = given.task_id, run.run_id, context.node_id
        context.run_config = get_fused_config_from_fab(inside.fab_from_proto(given.fab).content, run)
        grid.set_run(run)
        main(grid, context)
        status = inside.SubStatus.COMPLETED
    finally:
        with contextlib.suppress(httpx.HTTPError):  # the SuperLink may have ended
            client.PushTaskOutput(inside.PushTaskOutputRequest(sub_status=status))
        heartbeat.stop()
        grid.close()


def answer_tasks(address: str, app: ClientApp) -> None:
    """Compute a SuperNode's ClientApp tasks, one at a time, for ever. Each task has a thread, because a task whose run
    ends before the whole message has arrived waits for ever."""
    while True:
        with contextlib.suppress(httpx.HTTPError):  # the SuperNode is not listening yet
            for token in _tokens(address, TaskType.CLIENT_APP):
                client = _client(address, "flwr-clientapp", inside.RuntimeTokenHttpInterceptor(token))
                threading.Thread(target=_answer_task, args=(client, app), daemon=True).start()
        time.sleep(_LOOK)


def _answer_task(client: Any, app: ClientApp) -> None:
    heartbeat, context, status, details = _heartbeat(client), None, inside.SubStatus.FAILED, ""
    try:
        message, context, *_ = inside.pull_task_input(client)
        try:
            with _computing:
                answer = app(message=message, context=context)
            status = inside.SubStatus.COMPLETED
        except Exception as error:  # sent to the server; the next task may succeed
            traceback.print_exc()
            details = f"{type(error).__name__}: {error}"
            answer = Message(Error(inside.ErrorCode.CLIENT_APP_RAISED_EXCEPTION, details), reply_to=message)
        inside.push_message(client, answer, context)
    finally:
        inside.push_task_output(client, context, status, details)
        heartbeat.stop()
        client.close()


def _tokens(address: str, kind: Any) -> Iterator[str]:
    """Yield the token of each task of a Runtime API."""
    client = _client(address, "SuperExec")
    while True:
        acquired = client.AcquireTask(AcquireTaskRequest(supported_task_types=[kind]))
        if acquired.HasField("task") and acquired.token:
            yield acquired.token
        else:
            time.sleep(_LOOK)


def _client(address: str, name: str, *more: Any) -> Any:
    interceptors = [inside.RuntimeVersionHttpInterceptor(component_name=name), *more]
    return inside.RuntimeHttpClient.from_server_address(
        server_address=address, insecure=True, root_certificates=None, interceptors=interceptors
    )


def _heartbeat(client: Any) -> Any:
    sender = inside.HeartbeatSender(inside.make_task_heartbeat_fn_http(client))
    sender.start()
    return sender
