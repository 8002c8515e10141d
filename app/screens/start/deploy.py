"""Deploy the plan: one zip with what starts the federation on the server and on each kind of card."""

from __future__ import annotations

import math
from collections.abc import Sequence

import streamlit as st

from app.screens.start.answer import by_kind
from app.screens.start.data import ChosenData
from app.screens.start.model import ChosenModel
from app.screens.start.rehearse import NOBODY
from app.shared import components
from app.shared.links import linked_number, linked_text
from zorba_core.data.inventory import CardKind
from zorba_core.errors import InvalidInputError, ZorbaError
from zorba_core.federation.start_files import PORT, SeatKind, StartPlan, start_files
from zorba_core.runs.fleet_answer import FleetAnswer
from zorba_core.runs.model_source import is_bundled

_LEAST_DEADLINE, _PATIENCE = 60, 4  # seconds; rounds of the slowest card


def section(kinds: Sequence[CardKind], answered: FleetAnswer, model: ChosenModel, data: ChosenData | None) -> None:
    """Server, rounds, and the download."""
    nobody = answered.allocation is None
    reason = f"{NOBODY}: there is nothing to deploy." if nobody else None
    with st.popover("Deploy …", icon=":material/rocket_launch:", disabled=nobody, help=reason):
        st.markdown(
            "One zip: the server's start files, **one script a kind of card**, new keys, and a README with the steps."
        )
        server = linked_text("Name or address of the server", key="my_server", placeholder="server.example").strip()
        rounds = linked_number(st.number_input, "Rounds", 1, 100_000, 200, key="my_rounds")
        try:
            plan = plan_of(kinds, answered, model, data, server or "server.example", int(rounds))
        except InvalidInputError as error:
            components.problem("This cannot be deployed yet", components.sentence(error))
            return
        st.download_button(
            "Download start files (ZIP)",
            lambda: _packed(plan),
            "zorba-federation.zip",
            "application/zip",
            key="start_deploy",
            on_click="ignore",
            icon=":material/download:",
            type="primary",
            disabled=not server,
            help=None if server else "Name the server first: keys, certificate and scripts are made for it.",
        )
        st.caption(
            f"{plan.num_seats} clients in {len(plan.kinds)} scripts. The private keys are made on the click: send "
            "nobody more than the folder of their card."
        )


def _packed(plan: StartPlan) -> bytes:
    try:
        return start_files(plan)
    except ZorbaError as error:  # what a download must be instead of an error page
        return f"{error}\n".encode()


def plan_of(
    kinds: Sequence[CardKind],
    answered: FleetAnswer,
    model: ChosenModel,
    data: ChosenData | None,
    server: str,
    rounds: int,
) -> StartPlan:
    """The federation of this answer; its seats are the cards that take part, kind after kind.

    Raises:
        InvalidInputError: nobody takes part, too many, or no name of a server.
    """
    seats, number = [], 0
    for card, plans in zip(kinds, by_kind(kinds, answered), strict=True):
        able = [plan for plan in plans if plan.fits]
        if not able:
            continue
        blocks = answered.shape.num_blocks if answered.budgets_by == "engine" else max(1, able[0].budget_paper)
        streams = able[0].mode == "streamed"
        seats.append(
            SeatKind(
                card.kind,
                tuple(range(number, number + len(able))),
                min(blocks, answered.shape.num_blocks),
                f"{math.floor(card.gib * 100) / 100:.2f}GiB" if streams else None,
                names=card.names,
            )
        )
        number += len(able)
    load = answered.load
    deadline = max(_LEAST_DEADLINE, math.ceil(_PATIENCE * (answered.seconds or 0)))
    options: dict[str, str | int | float] = {
        "rounds": rounds,
        "batch_size": load.batch_size,
        "seq_len": load.seq_len,
        "perturbations": load.num_perturbations,
        "dtype": load.dtype,
        "min_clients": max(1, math.ceil(number / 2)),
        "deadline": deadline,
    }
    own = data is not None and data.own
    if not own and data is not None:
        options = {"dataset": data.task.name, **options}
    return StartPlan(tuple(seats), options, model.source, is_bundled(model.source), own, server, PORT)
