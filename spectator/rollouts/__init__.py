"""Rollouts: fleets of episodes driven for their data, against a language-model endpoint."""
