"""Walkthroughs, and the reproduction of the paper that they use."""
