"""The theory page."""
