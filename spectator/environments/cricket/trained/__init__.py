"""A captain trained on this world: a small language model that runs in numpy."""
