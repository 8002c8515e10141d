"""Pictures of figures one after the other: the browser that draws them stays for a while, so that only the first waits.

Starting a browser takes about two seconds and a picture a fifth of one. The browser is started by the first picture,
ends when none has been asked for in ``IDLE_SECONDS``, and with the process.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections import deque
from concurrent.futures import Future
from typing import Any, NamedTuple

import plotly.graph_objects as go

from zorba_core.errors import RunError
from zorba_core.plots.pictures import OFFLINE, picture_options

IDLE_SECONDS = 120.0
PATIENCE_SECONDS = 30.0


class _Asked(NamedTuple):
    figure: dict[str, Any]
    options: dict[str, Any]
    answer: Future[bytes]


class PictureServer:
    """One browser and a thread that speaks to it. Any thread may ask."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()  # guards all of what follows
        self._asked: deque[_Asked] = deque()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._wake: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None  # of the thread, once it listens

    def picture(self, figure: go.Figure, suffix: str, *, scale: float | None = None) -> bytes:
        """As :func:`zorba_core.plots.pictures.picture_bytes`.

        Raises:
            RunError: the browser cannot be started, or did not answer in ``PATIENCE_SECONDS``.
        """
        asked = _Asked(figure.to_dict(), picture_options(figure, suffix, scale), Future())
        with self._lock:
            self._asked.append(asked)
            if self._thread is None:
                self._stopping = False
                self._thread = threading.Thread(target=self._run, name="zorba-pictures", daemon=True)
                self._thread.start()
            self._knock()
        try:
            return asked.answer.result(PATIENCE_SECONDS)
        except TimeoutError:
            raise RunError(f"the picture was not drawn within {PATIENCE_SECONDS:.0f} s; try again") from None
        except Exception as error:  # of kaleido or its browser: many kinds
            raise RunError(f"the picture cannot be drawn: {type(error).__name__}: {error}") from error

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    def stop(self) -> None:
        """End the browser; the next picture starts another."""
        with self._lock:
            thread, self._stopping = self._thread, True
            self._knock()
        if thread is not None:
            thread.join(10)

    def _knock(self) -> None:
        if self._wake is not None:
            loop, event = self._wake
            loop.call_soon_threadsafe(event.set)

    def _run(self) -> None:
        problem: BaseException = RuntimeError("the browser was stopped")
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            problem = error
        with self._lock:
            if self._thread is not threading.current_thread():
                return  # it ended for want of work, and another may run already
            self._leave()
            while self._asked:
                self._asked.popleft().answer.set_exception(problem)

    def _leave(self) -> None:
        self._thread = self._wake = None

    async def _serve(self) -> None:
        import kaleido

        event = asyncio.Event()
        async with kaleido.Kaleido(**OFFLINE) as drawing:
            with self._lock:
                self._wake = (asyncio.get_running_loop(), event)
            while True:
                event.clear()
                with self._lock:
                    if self._stopping:
                        return
                    asked = self._asked.popleft() if self._asked else None
                if asked is None:
                    try:
                        await asyncio.wait_for(event.wait(), self._idle_seconds)
                    except TimeoutError:
                        with self._lock:
                            if not self._asked:
                                self._leave()  # whoever asks from now on starts another
                                return
                    continue
                try:
                    asked.answer.set_result(await drawing.calc_fig(asked.figure, asked.options))
                except Exception as error:
                    asked.answer.set_exception(error)
                    return  # a browser that failed once is not asked again


SERVER = PictureServer()
# Before the interpreter waits for the threads that read from the browser, not after: they end with it.
getattr(threading, "_register_atexit", atexit.register)(SERVER.stop)
