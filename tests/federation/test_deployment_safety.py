"""A deployment without certificates stays on this machine."""

from __future__ import annotations

import pytest

pytest.importorskip("flwr")

from zorba_core.errors import InvalidInputError
from zorba_core.federation.flower.deployment import Deployment


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.1.4", "server.example"])
def test_nodes_that_are_not_authenticated_are_refused_beyond_loopback(tmp_path, address):
    with pytest.raises(InvalidInputError, match="needs certificates and registered nodes"):
        Deployment(tmp_path, listen=address)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost"])
def test_loopback_needs_none(tmp_path, address):
    with Deployment(tmp_path, listen=address) as deployment:
        assert deployment.listen == address
