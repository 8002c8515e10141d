"""The solvers, one file each. The import of this package registers them."""

from zorba_core.allocation.solvers import balanced, lexicographic, two_level, exact  # noqa: F401, I001 - the order of lists
