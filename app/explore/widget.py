"""The component in a notebook: ``fleet.explore()``. No Streamlit.

The browser draws and computes as on the page; the kernel answers in place of the dashboard's server.
"""

from __future__ import annotations

import itertools
import uuid
from dataclasses import replace
from typing import Any

import anywidget
import numpy as np
import traitlets

from app.explore import module, text_of
from app.parts import fleets
from app.parts.answers import after, data_of
from app.scenario import Scenario
from zorba_core.allocation import Problem, Solution, Status
from zorba_core.errors import InfeasibleError, InvalidInputError
from zorba_core.fleet import Fleet
from zorba_core.vram import PRESETS


class Explorer(anywidget.AnyWidget):
    """A fleet, the allocation at the point, and what memory buys. After a move in the cell, ``fleet``, ``total`` and
    ``solution`` are those on the screen; ``observe(function, "scenario")`` reacts to each move.

    Raises:
        InvalidInputError: the component cannot show this fleet's model or workload.
    """

    _esm = module()
    html = traitlets.Unicode(f"<style>{text_of('explore.css')}</style>{text_of('explore.html')}").tag(sync=True)
    data = traitlets.Dict().tag(sync=True)
    scenario = traitlets.Instance(Scenario)

    def __init__(self, fleet: Fleet) -> None:
        self._first = fleet
        self._state = {"session": uuid.uuid4().hex, "origin": "0", "revision": 0, "message": ""}
        super().__init__(scenario=scenario_of(fleet))
        fleets.warm_up()
        self._answer()
        self.on_msg(self._take)

    def __repr__(self) -> str:
        chosen = self._study
        point = chosen.problem or f"{self.scenario.follow}, at most {self.total} of {chosen.most} blocks"
        return f"Explorer({len(chosen.gib_N)} clients of {self.scenario.model}: {point})"

    @property
    def fleet(self) -> Fleet:
        """The clients on the screen that have room for a block."""
        study, first = self._study, self._first
        if len(study.all_N_gib) != first.num_clients:
            return study.fleet
        here = np.flatnonzero(study.needs.blocks(study.all_N_gib) >= 1)
        return replace(study.fleet, names=tuple(first.names[n] for n in here))

    @property
    def total(self) -> int:
        """The limit on blocks over all clients: the point."""
        return self._study.total(self.scenario)

    @property
    def solution(self) -> Solution:
        """The allocation on the screen, with the cells changed by hand; waits for a solver that is still at work.

        Raises:
            InfeasibleError: the fleet or the method has no allocation, or the cells changed by hand cannot be trained.
        """
        study, solution, allocation = fleets.planned(self.scenario)
        if allocation is solution.allocation:
            return replace(solution, fleet=self.fleet)
        if complaints := study.complaints(allocation):
            raise InfeasibleError(" ".join(complaints))
        problem = Problem(study.budget_N, study.needs.num_blocks, allocation.total_blocks)
        return replace(
            solution,
            allocation=allocation,
            value=allocation.bias_lambda,
            lower_bound=study.bound(allocation.total_blocks),
            status=Status.FEASIBLE,
            solver=f"{solution.solver}, changed by hand",
            problem=problem,
            fleet=self.fleet,
        )

    @property
    def _study(self) -> fleets.Study:
        return fleets.study(self.scenario.fleet)

    def _take(self, _: Any, sent: dict[str, Any], __: Any) -> None:
        """A message of the browser: an event of the component, as in :func:`app.parts.answers.after`. A release that is
        older than the fleet of a file changes nothing."""
        event, value, state = sent["event"], sent["value"], self._state
        if event == "state" and value["origin"] != state["origin"]:
            return
        try:
            self.scenario = after(self.scenario, event, value)
            state["message"] = state["message"] if event == "ask" else ""
        except InvalidInputError as error:
            state["message"] = str(error)
        else:
            if event == "state":
                state["revision"] = int(value["revision"])
            elif event == "file":
                state["origin"] = uuid.uuid4().hex
        self._answer()

    def _answer(self) -> None:
        self.data = {**data_of(self.scenario, self._study), **self._state}


def scenario_of(fleet: Fleet) -> Scenario:
    """The fleet as a list of clients.

    Raises:
        InvalidInputError: a model that is no preset, or a workload out of the component's range.
    """
    model = next((name for name, spec in PRESETS.items() if spec == fleet.model), None)
    if model is None:
        raise InvalidInputError(
            f"explore() shows fleets of {', '.join(PRESETS)}; this one is of {fleet.model.name}: use "
            "zorba.front(fleet) and zorba.solve(fleet)"
        )
    work, gib_N = fleet.workload, fleet.capacity_N_gib.tolist()
    rows = tuple((gib, len([*same])) for gib, same in itertools.groupby(gib_N))
    sizes: dict[str, Any] = {"batch": work.batch_size, "length": work.seq_len, "precision": work.dtype}
    return Scenario(shape="list", model=model, rows=rows, **sizes)
