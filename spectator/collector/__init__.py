"""The collector: episodes of one agent with full trajectories, for training in the same process."""
