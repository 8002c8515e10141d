"""A network cable that can be cut or slowed: a TCP proxy on loopback."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

_HOST = "127.0.0.1"


class Cable:
    """Leads to ``port``. While it is cut, connections through it are dropped and new ones refused. ``delay`` seconds
    pass before each piece of what is sent is passed on, in both directions."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self.port, self.delay = 0, 0.0
        self.restore()

    def restore(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((_HOST, self.port))
        listener.listen()
        self.port, self._listener = listener.getsockname()[1], listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def cut(self) -> None:
        listener, self._listener = self._listener, None
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        with self._lock:
            for connection in self._open:
                _drop(connection)
            self._open.clear()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return  # cut
            try:
                far = socket.create_connection((_HOST, self._to))
            except OSError:  # nobody at the other end now
                _drop(near)
                continue
            with self._lock:
                if listener is not self._listener:
                    _drop(near)
                    _drop(far)
                    return
                self._open |= {near, far}
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while content := source.recv(2**16):
                time.sleep(self.delay)
                target.sendall(content)
        with self._lock:
            for connection in (source, target):
                _drop(connection)
                self._open.discard(connection)


def _drop(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
