"""The worlds that agents play in."""
