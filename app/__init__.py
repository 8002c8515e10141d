"""The dashboard of the ZorBA suite. A wheel installs this folder as ``zorba_app``; inside, its name is ``app``."""

import sys

sys.modules.setdefault("app", sys.modules[__name__])
