"""Work beside the requests: narration of episodes and housekeeping of the journal."""
