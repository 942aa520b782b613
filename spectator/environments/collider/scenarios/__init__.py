"""Where campaigns come from: tiers of difficulty, named scenarios, and real recorded data."""
