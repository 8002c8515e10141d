"""Block allocation and zeroth-order federated fine-tuning across clients whose GPUs differ.

Importing this package loads neither torch nor plotly; ``zorba_core.training`` and ``zorba_core.plots`` do.
"""

__version__ = "0.1.0"
