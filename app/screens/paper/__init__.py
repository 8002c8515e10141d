"""The Paper page: the claims, what was found, and where to see it."""
