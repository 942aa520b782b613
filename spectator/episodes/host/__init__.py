"""Episodes that this process hosts: the supervisor, handles, recovery, episodes played elsewhere."""
