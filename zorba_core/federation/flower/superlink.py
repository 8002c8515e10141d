"""Flower's SuperLink behind the :mod:`guard <zorba_core.federation.flower.guard>`: ``zorba federation superlink``.

It takes the options of ``flower-superlink``, and refuses to listen beyond loopback to nodes that are not authenticated.
"""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Sequence
from typing import Any

from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.federation.flower.commands import NO_FLOWER, run_command, settings
from zorba_core.federation.flower.guard import FLEET, Guard


def check_reach(host: str, authenticated: bool) -> None:
    """
    Raises:
        InvalidInputError: nodes that nobody knows could connect from other machines.
    """
    if not authenticated and not is_loopback(host):
        raise InvalidInputError(
            f"a SuperLink that listens on {host} needs certificates and registered nodes (--enable-supernode-auth), "
            "as zorba_core/federation/README.md says"
        )
    if not is_loopback(host) and not _is_address(host):  # its own processes would ask under a name that is not known
        raise InvalidInputError(f"--host is {host!r}; give an address of this machine, such as 0.0.0.0")


def main(options: Sequence[str]) -> None:
    """Run until it is ended.

    Raises:
        InvalidInputError: as :func:`check_reach`.
        MissingDataError: there is no Flower, or another one than this was written for.
    """
    os.environ.update(settings())
    try:
        from flwr.superlink import main as service
        from flwr.superlink.cli.flower_superlink import _parse_args_run_superlink, flower_superlink

        create, parser = service.create_app, _parse_args_run_superlink()
    except (ImportError, AttributeError):
        raise MissingDataError(NO_FLOWER) from None

    def guarded(config: Any, *others: Any) -> Any:
        authenticated = bool(config.enable_supernode_auth and config.certificates)
        check_reach(config.host, authenticated)
        app = create(config, *others)
        app.add_middleware(Guard, open_paths=(FLEET,) if authenticated else ())
        return app

    service.create_app = guarded
    for name in ("FLWR_INTERNAL_GRPC_CONTROL_API", "FLWR_INTERNAL_GRPC_FLEET_API"):  # ports that nothing guards
        os.environ.pop(name, None)
    run_command(flower_superlink, parser, options)


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback if _is_address(address) else address == "localhost"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


if __name__ == "__main__":
    main(sys.argv[1:])
