"""The reproduction of the paper: its theory, its tables, experiments, and a verdict on every claim.

``zorba_core`` imports nothing from here."""
