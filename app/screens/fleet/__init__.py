"""The fleet page."""
