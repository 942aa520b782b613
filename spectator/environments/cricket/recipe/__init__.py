"""The recipe of the trained captain: examples, training, self-play, evaluation."""
