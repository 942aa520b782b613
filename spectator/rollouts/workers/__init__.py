"""Worker processes of a run of rollouts: they play by leases, and one process records for all."""
