"""What a fleet can hold: sizes of models, the VRAM model, fleets, facts of the methods, communication. No torch."""
