"""The record of an episode while it is made: numbered events, the viewers' state, waiting for the journal."""
