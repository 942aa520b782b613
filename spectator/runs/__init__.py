"""Many episodes as one piece of work: their ids, what is owed, attempts, and what a failure does."""
