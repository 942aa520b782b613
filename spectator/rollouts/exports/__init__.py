"""Exports for trainers, made from the journal: rows of tokens, groups, preference pairs, records, traces."""
