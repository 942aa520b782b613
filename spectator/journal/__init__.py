"""The journal: the durable, append-only record of events."""
