"""A captain that was trained on this world: a small language model, played by numpy."""
