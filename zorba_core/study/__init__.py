"""The reproduction of the paper: its theory, its tables, experiments, and a verdict on every claim."""
