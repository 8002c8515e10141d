"""A SuperNode whose ClientApp stays loaded between messages (:mod:`zorba_core.federation.inside`).

    python -m zorba_core.federation.resident --superlink HOST:PORT --node-config "partition-id=0 rows='mine.csv'" ...

takes all options of ``flower-supernode``. Its Runtime API listens on this machine only. Where Flower has changed
inside, it is ``flower-supernode``.
"""

from __future__ import annotations

import argparse
import logging
import sys
import threading

from flwr.supernode.cli import flower_supernode

from zorba_core.federation import inside


def main() -> None:
    reader = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    reader.add_argument("--host", default="127.0.0.1")
    reader.add_argument("--port", default="9094")
    place, rest = reader.parse_known_args()
    sys.argv = ["flower-supernode", *rest, "--host", place.host, "--port", place.port]
    if inside.OFF:
        logging.getLogger(__name__).warning(inside.OFF)
        return flower_supernode()
    if {"-h", "--help"} & {*rest}:
        return flower_supernode()
    sys.argv += ["--isolation", "process"]
    inside.shorten_waits()

    def work() -> None:
        from zorba_core.federation import client_app  # PyTorch loads while the SuperNode connects

        client_app.RESIDENT = True
        inside.answer_tasks(f"{place.host}:{place.port}", client_app.app)

    threading.Thread(target=work, daemon=True).start()
    flower_supernode()


if __name__ == "__main__":
    main()
