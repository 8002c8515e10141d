"""Federated zeroth-order fine-tuning, and what it needs: tasks, rows, the base model. This half imports torch."""
