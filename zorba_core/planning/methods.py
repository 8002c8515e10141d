"""The methods by name: what each activates and exchanges, and its titles. No torch.

``METHODS`` is the one registry. Its parts are facts that name the class that computes them (``code``), which is
imported when a run needs it, so that planning a fleet needs no torch; or, where that does not matter, one object that
has the facts and computes: a :class:`zorba_core.engine.methods.interface.Method`.

What a method's messages weigh is in :mod:`zorba_core.planning.communication`, what its clients hold in
:mod:`zorba_core.planning.memory`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from zorba_core.registry import Registry

Exchange = Literal["scalars", "estimates", "weights"]


@dataclass(frozen=True)
class MethodFacts:
    """One method; of the four that the paper compares, as its section V describes it."""

    name: str
    title: str
    help: str  # one line
    default_directions: int  # Q of a round in the paper's experiments; 0: it takes the gradient itself
    exchanges: Exchange
    allocates: bool = False  # takes an allocation; without, every client activates every block
    keeps_state: bool = False  # the server carries numbers from round to round, which the log keeps
    usual_lr: float = 1e-2  # a learning rate to begin with
    code: str = ""  # "module:class" of the Method that computes it; empty: this object is one

    @property
    def first_order(self) -> bool:
        return self.default_directions == 0

    @property
    def federates(self) -> bool:
        """Whether its clients can be separate processes. They follow the server by scalars, never by weights."""
        return self.exchanges == "scalars"


METHODS: Registry[MethodFacts] = Registry(
    "method", "zorba.methods", accepts=lambda part: _problem(part), home=lambda: _register_own()
)


def method_facts(name: str) -> MethodFacts:
    """
    Raises:
        InvalidInputError: no such method.
    """
    return METHODS.get_part(name)


def _register_own() -> None:
    shared, code = "shared directions", "zorba_core.engine.methods"
    for facts in (
        MethodFacts(
            "zorba",
            "ZorBA",
            f"{shared}, allocated blocks, exchanges scalars",
            10,
            "scalars",
            allocates=True,
            code=f"{code}.interface:ScalarMethod",
        ),
        MethodFacts(  # ZorBA with every block active
            "decomfl",
            "DeComFL",
            f"{shared}, all blocks, exchanges scalars",
            1,
            "scalars",
            usual_lr=2e-3,
            code=f"{code}.interface:ScalarMethod",
        ),
        MethodFacts(
            "fedzo",
            "FedZO",
            "each client's own directions, all blocks, exchanges full estimates",
            1,
            "estimates",
            usual_lr=2e-2,
            code=f"{code}.fedzo:FedZO",
        ),
        MethodFacts(
            "fedit",
            "FedIT",
            "first-order, all blocks, exchanges the model",
            0,
            "weights",
            usual_lr=1e-1,
            code=f"{code}.first_order:FirstOrder",
        ),
    ):
        METHODS.register(facts)


def _problem(part: object) -> str | None:
    if not isinstance(part, MethodFacts):
        return f"{type(part).__name__} is not a Method"
    needed = ("init", "report", "update", *(["coefficients"] if part.federates else []))
    missing = [name for name in needed if not callable(getattr(part, name, None))]
    if missing and not part.code:
        return f"it has no {missing[0]}; derive it from zorba_core.engine.methods.interface"
    if part.keeps_state and part.exchanges == "weights":
        return "it exchanges weights, so its log could not give a server state back"
    return None
