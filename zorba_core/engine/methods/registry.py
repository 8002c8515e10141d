"""The methods by name: what each activates and exchanges, and the object that computes it. Listing them loads no torch.

A part of ``METHODS`` is facts that name the class that computes (``code``), which is imported when a run needs it; or
one object that has the facts and computes: a :class:`zorba_core.engine.methods.interface.Method`.

What a method's messages weigh is in :mod:`zorba_core.engine.communication`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from zorba_core.errors import InvalidInputError
from zorba_core.registry import Registry, imported
from zorba_core.vram import ModelSpec, Workload, check_clients, psi_total_bytes

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
    code: str = ""  # "module:class" of the Method that computes it; empty: this object is one

    @property
    def first_order(self) -> bool:
        return self.default_directions == 0

    @property
    def federates(self) -> bool:
        """Whether its clients can be separate processes. They follow the server by scalars, never by weights."""
        return self.exchanges == "scalars"

    def total_bytes(
        self, model: ModelSpec, workload: Workload, num_clients: int, total_blocks: int | None = None
    ) -> int:
        """All clients together, as in Table II: parameters and activations, and FedIT's gradients (one more copy of d).

        ``total_blocks`` is the sum of the activation matrix and belongs to a method that allocates; the others activate
        all M*N blocks.

        Raises:
            InvalidInputError: ``total_blocks`` missing for a method that allocates, outside [max(M, N), M*N], or given
                for another method and not M*N.
        """
        check_clients(num_clients)
        most, least = model.num_blocks * num_clients, max(model.num_blocks, num_clients)
        if self.allocates:
            if total_blocks is None:
                raise InvalidInputError(
                    f"{self.title}'s VRAM depends on the allocation: give the total of activated blocks"
                )
            if not least <= total_blocks <= most:
                raise InvalidInputError(
                    f"total blocks is {total_blocks}; with {model.num_blocks} blocks and {num_clients} clients it must "
                    f"be between {least} (each block and each client once) and {most}"
                )
        elif total_blocks not in (None, most):
            raise InvalidInputError(
                f"{self.name} activates all {most} blocks; leave total blocks out, or use method zorba"
            )
        blocks = most if total_blocks is None else total_blocks
        return psi_total_bytes(model, workload, num_clients, blocks, copies=2 if self.first_order else 1)


METHODS: Registry[MethodFacts] = Registry(
    "method", "zorba.methods", accepts=lambda part: _problem(part), home=lambda: _register_own()
)


def method_facts(name: str) -> MethodFacts:
    """
    Raises:
        InvalidInputError: no such method.
    """
    return METHODS.get_part(name)


def method_of(settings: Any) -> Any:
    """The :class:`zorba_core.engine.methods.interface.Method` of a run's settings."""
    facts = METHODS[settings.method]
    return imported(facts.code)(**vars(facts)) if facts.code else facts


def _register_own() -> None:
    shared, code = "shared directions", __name__.rpartition(".")[0]
    scalars = f"{code}.interface:ScalarMethod"
    for facts in (
        MethodFacts("zorba", "ZorBA", f"{shared}, allocated blocks, exchanges scalars", 10, "scalars", True, scalars),
        MethodFacts("decomfl", "DeComFL", f"{shared}, all blocks, exchanges scalars", 1, "scalars", False, scalars),
        MethodFacts(
            "fedzo",
            "FedZO",
            "each client's own directions, all blocks, exchanges full estimates",
            1,
            "estimates",
            code=f"{code}.fedzo:FedZO",
        ),
        MethodFacts(
            "fedit",
            "FedIT",
            "first-order, all blocks, exchanges the model",
            0,
            "weights",
            code=f"{code}.fedit:FedIT",
        ),
    ):
        METHODS.register(facts)


def _problem(part: object) -> str | None:
    if not isinstance(part, MethodFacts):
        return f"{type(part).__name__} is not a Method"
    needed = ("init", "report", "update", *(["coefficients"] if part.federates else []))
    missing = [name for name in needed if not callable(getattr(part, name, None))]
    return f"it has no {missing[0]}; derive it from ScalarMethod or Method" if missing and not part.code else None
