"""The recipe of the trained cricket captain: examples, supervised learning, self-play, evaluation."""
