"""Replays from the record: verify an episode, restore one after a crash, fork one, rebuild its prompts."""
