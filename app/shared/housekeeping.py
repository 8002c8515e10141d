"""What the server does between answers."""

from __future__ import annotations

import gc

_settled: set[str] = set()


def settle(page: str) -> None:
    """After a page's first run in this process: exempt long-lived objects from garbage collection.

    Streamlit collects garbage after every run of a page and looks at every object for it, most of which are the
    libraries' own: 95 ms, in which nothing else of the server runs. Frozen ones are passed over (below 1 ms).
    """
    if page not in _settled:
        _settled.add(page)
        gc.collect()
        gc.freeze()
