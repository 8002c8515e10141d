"""Flower's SuperNode that runs this package's app and no other: ``zorba federation node``.

A SuperNode of Flower's executes whatever app its SuperLink hands it: who holds the server holds every client. This one
compares the app with the one that :mod:`zorba_core.federation.flower.app_folder` writes, file by file, before it is
unpacked, and answers no message of a run with another. It takes the options of ``flower-supernode``.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.federation.flower.app_folder import APP_ID, APP_VERSION, check_app
from zorba_core.federation.flower.commands import NO_FLOWER, run_command, settings
from zorba_core.federation.flower.guard import Guard


def main(options: Sequence[str]) -> None:
    """Run until it is ended.

    Raises:
        InvalidInputError: Flower does not take the options.
        MissingDataError: there is no Flower, or another one than this was written for.
    """
    os.environ.update(settings())
    try:
        from flwr.supernode import main as service
        from flwr.supernode import start_client_internal as loop
        from flwr.supernode.cli.flower_supernode import _parse_args_run_supernode, flower_supernode

        create, pull, parser = service.create_app, loop._pull_and_store_message, _parse_args_run_supernode()
    except (ImportError, AttributeError):
        raise MissingDataError(NO_FLOWER) from None
    if not {"get_run", "get_fab"} <= set(inspect.signature(pull).parameters):
        raise MissingDataError(NO_FLOWER)

    def guarded(*args, **named):
        app = create(*args, **named)
        app.add_middleware(Guard)
        return app

    service.create_app = guarded
    loop._pull_and_store_message = with_our_app_alone(pull)
    run_command(flower_supernode, parser, options)


def with_our_app_alone(pull: Callable[..., int | None]) -> Callable[..., int | None]:
    """Flower's step of receiving a message, which begins with the app of a run that it does not know yet."""
    from flwr.supercore import log
    from flwr.supernode.start_client_internal import RunNotRunningException

    def pull_checked(*, get_run: Callable[[int], Any], get_fab: Callable[[str, int], Any], **rest: Any) -> int | None:
        def checked_run(run_id: int) -> Any:
            run = get_run(run_id)
            if (run.fab_id, run.fab_version) != (APP_ID, APP_VERSION):
                refuse(run_id, f"it is of the app {run.fab_id!r:.100} {run.fab_version!r:.40}")
            return run

        def checked_app(fab_hash: str, run_id: int) -> Any:
            fab = get_fab(fab_hash, run_id)
            try:
                check_app(fab.content)
            except InvalidInputError as error:
                refuse(run_id, str(error))
            if not fab.hash_str == fab_hash == hashlib.sha256(fab.content).hexdigest():
                refuse(run_id, "its app is not the one that the run names")
            return fab

        return pull(get_run=checked_run, get_fab=checked_app, **rest)

    def refuse(run_id: int, reason: str) -> None:
        log(40, "run %s refused: %s; this node runs the app of zorba_core alone", run_id, reason)
        raise RunNotRunningException  # Flower's word for: leave this message, and go on

    return pull_checked


if __name__ == "__main__":
    main(sys.argv[1:])
