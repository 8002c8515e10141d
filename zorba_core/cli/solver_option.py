"""``--solver``: the solvers there are, with a line about each."""

from __future__ import annotations

from typer.models import OptionInfo

from zorba_core.allocation import SOLVERS

DEFAULT_SOLVER = "balanced"


class _SolverOption(OptionInfo):
    """Its help is written when it is asked for, so that a solver registered by then is in it."""

    @property
    def help(self) -> str:
        return "; ".join(f"{part.name}: {part.help}" for part in SOLVERS.values()) + f". Default {DEFAULT_SOLVER}."

    @help.setter
    def help(self, value: str | None) -> None:
        """The text is made, not kept."""


def solver_option(default: str | None = DEFAULT_SOLVER) -> OptionInfo:
    """``--solver``; a ``default`` of None tells a command whether the option was given."""
    return _SolverOption(default=default, param_decls=(), show_default=False)
