"""The solvers: each answers an allocation problem with a matrix."""
