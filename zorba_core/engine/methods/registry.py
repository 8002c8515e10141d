"""The method object for a method's name."""

from __future__ import annotations

from zorba_core.engine.methods.interface import Method
from zorba_core.engine.settings import Settings
from zorba_core.planning.methods import METHODS
from zorba_core.registry import imported


def method_of(settings: Settings) -> Method:
    """The registered object itself, or one of the class that the registered facts name."""
    facts = METHODS[settings.method]
    return facts if isinstance(facts, Method) else imported(facts.code)(**vars(facts))
