"""Virtual clients in one process: a Flower grid that calls the ClientApp with each message and stores the answer.

All replicas of a run are equal after each round, so the clients share one; each has its own rows. Server, ClientApp and
messages are the same as in a deployment, without a network.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from flwr.app import Context, Message, RecordDict
from flwr.app.error import Error
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from zorba_core.federation import client_app


class LocalGrid(Grid):
    """One client for each ``--node-config``; node ids are 1, 2, ... To add or remove clients, change ``nodes``."""

    def __init__(self, node_configs: Sequence[Mapping[str, Any]], app: ClientApp = client_app.app) -> None:
        TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1  # Flower needs them to make a message
        client_app.RESIDENT = True
        self._app, self._answers = app, {}
        self.nodes = {
            node: Context(1, node, dict(config), RecordDict(), {}) for node, config in enumerate(node_configs, start=1)
        }

    # Abstract in Flower's Grid; the ServerApp does not call them.
    set_run = run = create_message = send_and_receive = cast(Any, None)

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Call the ClientApp of each message's client."""
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = name = f"message-{len(ids)}-{message.object_id}"
            ids.append(name)
            context = self.nodes.get(message.metadata.dst_node_id)
            if context is not None:
                self._answers[name] = self._answered(message, context)
        return ids

    def _answered(self, message: Message, context: Context) -> Message:
        try:
            return self._app(message=message, context=context)
        except Exception as error:  # like a SuperNode: the server gets the error
            return Message(
                Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=f"{type(error).__name__}: {error}"),
                reply_to=message,
            )

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self._answers.pop(name) for name in message_ids if name in self._answers]
