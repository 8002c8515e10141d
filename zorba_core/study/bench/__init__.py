"""How fast the training engine is on this machine: beside what it cannot beat, and in the sizes it is meant for."""
