"""Who may speak to the dashboard: the first thing that every request passes.

A browser lets a page speak to the host that it came from. If somebody's name is made to lead to 127.0.0.1 (DNS
rebinding), their page and this dashboard have one origin for the browser. So a request must name this machine by a
number, as localhost, or by a name of ``ZORBA_HOSTS`` (with commas). A page of another origin, which may be another
program on this machine, is refused; Streamlit itself would compare names without ports, and ask a service on the
internet for this machine's address to do so. No page of another origin may show the dashboard in a frame, where its
reader would click what he does not see, and pictures come from the dashboard alone.
"""

from __future__ import annotations

import ipaddress
import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.websockets import WebSocketClose

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

VARIABLE = "ZORBA_HOSTS"
_UNKNOWN_NAME = (
    "This dashboard was reached under a name that it does not know. Use http://127.0.0.1 with its port, or start it "
    f"with {VARIABLE} set to the name."
)
_OTHER_ORIGIN = "This dashboard does not answer pages of other origins."
_ON_EVERY_ANSWER = {
    "X-Frame-Options": "SAMEORIGIN",
    "Content-Security-Policy": "frame-ancestors 'self'; img-src 'self' data: blob:",
}


def is_ours(host: str) -> bool:
    """Whether a request may name this machine so; ``host`` as in its header, with or without a port."""
    name = host.strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    names = {"localhost", *(part.strip().lower() for part in os.environ.get(VARIABLE, "").split(",") if part.strip())}
    if name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def refusal(host: str | None, origin: str | None) -> str:
    """Why a request with these headers is refused; empty where it is answered. Programs send no origin, and browsers
    send one wherever a page could read the answer or change something."""
    if not is_ours(host or ""):
        return _UNKNOWN_NAME
    if origin is not None and not _same_place(origin, host):
        return _OTHER_ORIGIN
    return ""


def _same_place(origin: str, host: str) -> bool:
    try:
        address = urlsplit(origin)
    except ValueError:
        return False
    return address.scheme in ("http", "https") and address.netloc.lower() == host.strip().lower()


class OnlyOurs:
    """ASGI middleware: refuses whom :func:`refusal` names, and says on every answer who may show it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        reason = refusal(hosts[0] if len(hosts) == 1 else None, ",".join(origins) if origins else None)
        if scope["type"] == "websocket":
            await (WebSocketClose(reason=reason) if reason else self.app)(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_ON_EVERY_ANSWER)
            await send(message)

        await (PlainTextResponse(reason, 403) if reason else self.app)(scope, receive, send_with_headers)
