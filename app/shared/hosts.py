"""Under which names the dashboard may be reached.

A browser lets a page speak to the host that it came from. If somebody's name is made to lead to 127.0.0.1 (DNS
rebinding), their page and this dashboard have one origin for the browser, and Streamlit's own check of origins lets it
pass. So a request must name this machine by a number, as localhost, or by a name of ``ZORBA_HOSTS`` (with commas).
"""

from __future__ import annotations

import ipaddress
import os

import streamlit as st

VARIABLE = "ZORBA_HOSTS"


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


def refuse_others() -> None:
    """Show nothing to a page that reached this server under somebody else's name."""
    host = st.context.headers.get("Host")
    if host is not None and not is_ours(host):
        st.error(
            "This dashboard was reached under a name that it does not know. Use http://127.0.0.1 with its port, or "
            f"start it with {VARIABLE} set to the name."
        )
        st.stop()
