"""Who may ask a SuperLink or SuperNode for what: a layer in front of Flower's HTTP service.

Flower 1.41 serves everything on one port. Its authentication of nodes covers the fleet's half alone: whoever reaches
the port may also register a node, or start a run of their own, whose code the server and every client then execute.
This layer leaves the fleet's half to others and keeps the rest for the user who started the process:

- a request from another machine may ask the fleet's half, where nodes are authenticated, and nothing else;
- so may a request from this machine by another user (Linux says whose a connection is), or through a proxy;
- a request that a browser makes, or one to a name that is not this machine's, is refused: a web page could send it.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

FLEET = "/v1/fleet/"
_FROM_A_BROWSER = (b"origin", b"sec-fetch-site", b"sec-fetch-mode")
_FROM_A_PROXY = (b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"forwarded", b"via")
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_ROOT, _ESTABLISHED = 0, "01"
_Scope = MutableMapping[str, Any]
_Address = tuple[str, int]


class Guard:
    """ASGI middleware.

    Args:
        open_paths: beginnings of paths that anybody may ask; the rest is for this process's own user on this machine.
    """

    def __init__(self, app: Callable[..., Awaitable[None]], open_paths: tuple[str, ...] = ()) -> None:
        self._app, self._open = app, open_paths

    async def __call__(self, scope: _Scope, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        reason = None if scope["type"] == "lifespan" else self.refusal(scope)
        if reason is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            body = f"refused: {reason}\n".encode()
            headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": "refused"})

    def refusal(self, scope: _Scope) -> str | None:
        """Why this request is not let through; None for one that is."""
        names = {name.lower() for name, _ in scope["headers"]}
        if names.intersection(_FROM_A_BROWSER):
            return "a browser asks, and no page has any business here"
        if scope["path"].startswith(self._open):
            return None
        client, server = scope.get("client"), scope.get("server")
        if client is None or server is None or names.intersection(_FROM_A_PROXY) or not _is_here(client, server):
            return "only this machine may ask this"
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == b"host"]
        if len(hosts) != 1 or not _names_this_machine(hosts[0], server):
            return f"{', '.join(hosts)[:100] or 'no host'} is not this machine's address"
        owner = owner_of(client, server)
        if owner not in (_ROOT, os.getuid()) and Path(_TABLES[0]).exists():
            return "only the user who started this process may ask this"
        return None


def owner_of(client: _Address, server: _Address) -> int | None:
    """The number of the user whose process on this machine holds the other end of a connection; None where no table
    says it. Of one that was closed behind its request the table says the user 0, and no file of a process."""
    ends, port = ((_plain(client[0]), client[1]), (_plain(server[0]), server[1])), f":{client[1]:04X}"
    for table in _TABLES:
        try:
            lines = Path(table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if not fields[1].endswith(port) or fields[3] != _ESTABLISHED or fields[9] == "0":
                continue
            if (_endpoint(fields[1]), _endpoint(fields[2])) == ends:
                return int(fields[7])
    return None


def _endpoint(text: str) -> _Address:
    """Of the kernel's table: hexadecimal words in the machine's order, a colon, the port."""
    words, _, port = text.partition(":")
    packed = b"".join(bytes.fromhex(words[at : at + 8])[::-1] for at in range(0, len(words), 8))
    return _plain(str(ipaddress.ip_address(packed))), int(port, 16)


def _plain(address: str) -> str:
    """An IPv4 address in IPv6's notation as itself."""
    known = ipaddress.ip_address(address.partition("%")[0])
    return str(getattr(known, "ipv4_mapped", None) or known)


def _is_here(client: _Address, server: _Address) -> bool:
    """Whether both ends of a connection are this machine's."""
    try:
        here = _plain(client[0])
        return ipaddress.ip_address(here).is_loopback or here == _plain(server[0])
    except ValueError:
        return False


def _names_this_machine(host: str, server: _Address) -> bool:
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    name = name.strip("[]").lower()
    try:
        address = _plain(name)
    except ValueError:
        return name == "localhost"
    return ipaddress.ip_address(address).is_loopback or address == _plain(server[0])
