"""What else a captain could have called, and what would have come of it."""
