"""How ``opt-mini`` is made: ``zorba make-base``, from raw text to weights, scores and a card. Imports torch."""
