"""Many episodes as one piece of work: their ids, what remains, attempts, and what a failure does."""
