"""Policies: scripted, a language model, a person, or a cache of recorded decisions."""
