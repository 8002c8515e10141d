"""The solvers: each answers an allocation problem with a matrix. Importing this package registers them."""

from zorba_core.allocation.solvers import balanced, lexicographic, two_level, exact  # noqa: F401, I001 - as listed
