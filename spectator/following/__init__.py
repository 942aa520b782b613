"""Follows runs of rollouts by their records alone, while other processes play them and afterwards."""
