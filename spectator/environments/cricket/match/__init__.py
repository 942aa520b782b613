"""A match in progress: engine, game, captains' state, fields, events, snapshots."""
