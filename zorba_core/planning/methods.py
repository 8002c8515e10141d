"""The four methods that the paper compares, by name: what each activates and what it exchanges. No torch.

What a method computes in a round is in :mod:`zorba_core.engine.methods.registry`, what its messages weigh in
:mod:`zorba_core.planning.communication`, what its clients hold in :mod:`zorba_core.planning.memory`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from zorba_core.errors import InvalidInputError

Exchange = Literal["scalars", "estimates", "weights"]


@dataclass(frozen=True)
class MethodFacts:
    """One method, as section V of the paper describes it."""

    name: str
    title: str
    what: str  # one line
    default_directions: int  # Q of a round in the paper's experiments; 0: it takes the gradient itself
    exchanges: Exchange
    allocates: bool = False  # takes an allocation; without, every client activates every block

    @property
    def first_order(self) -> bool:
        return self.default_directions == 0


_SHARED, _OWN = "shared directions", "each client's own directions"
METHODS: Mapping[str, MethodFacts] = {
    facts.name: facts
    for facts in (
        MethodFacts("zorba", "ZorBA", f"{_SHARED}, allocated blocks, exchanges scalars", 10, "scalars", allocates=True),
        MethodFacts("decomfl", "DeComFL", f"{_SHARED}, all blocks, exchanges scalars", 1, "scalars"),
        MethodFacts("fedzo", "FedZO", f"{_OWN}, all blocks, exchanges full estimates", 1, "estimates"),
        MethodFacts("fedit", "FedIT", "first-order, all blocks, exchanges the model", 0, "weights"),
    )
}


def method_facts(name: str) -> MethodFacts:
    """
    Raises:
        InvalidInputError: no such method.
    """
    if name not in METHODS:
        raise InvalidInputError(f"unknown method {name!r}; choose one of {', '.join(METHODS)}")
    return METHODS[name]
