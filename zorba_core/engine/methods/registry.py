"""The methods that can be run, by the name that settings know them by.

``METHODS`` (:mod:`zorba_core.planning.methods`) names them all. Our own compute by the objects below; a method from
elsewhere is the registered object itself (:mod:`zorba_core.engine.methods.interface`).
"""

from __future__ import annotations

from collections.abc import Mapping

from zorba_core.engine.methods.first_order import FirstOrder
from zorba_core.engine.methods.interface import Method, ScalarMethod
from zorba_core.engine.methods.own_directions import OwnDirections
from zorba_core.engine.settings import TrainSettings
from zorba_core.planning.methods import METHODS

OWN: Mapping[str, Method] = {
    "zorba": ScalarMethod.of("zorba"),
    "decomfl": ScalarMethod.of("decomfl"),  # ZorBA with every block active
    "fedzo": OwnDirections.of("fedzo"),
    "fedit": FirstOrder.of("fedit"),
}


def method_of(settings: TrainSettings) -> Method:
    return OWN.get(settings.method) or METHODS[settings.method]
