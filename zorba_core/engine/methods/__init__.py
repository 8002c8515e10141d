"""The federated methods: a file each, with the clients' reports and the server's step. The import loads no torch."""

from zorba_core.engine.methods.decomfl import DeComFL
from zorba_core.engine.methods.fedit import FedIT
from zorba_core.engine.methods.fedzo import FedZO
from zorba_core.engine.methods.zorba import ZorBA
from zorba_core.engine.parts import METHODS

for _method in (ZorBA(), DeComFL(), FedZO(), FedIT()):
    METHODS.register(_method)
