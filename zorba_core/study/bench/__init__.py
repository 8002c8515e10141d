"""The speed of the training engine on this machine: against its lower bound, and in the sizes it is meant for."""
