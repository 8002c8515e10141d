"""The tradeoff page."""
