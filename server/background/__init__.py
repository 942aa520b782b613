"""Background work: narration, housekeeping, recovery, child processes and notices."""
