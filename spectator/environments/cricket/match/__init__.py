"""A match in progress: the engine, the game around it, seats, fields, facts and snapshots."""
