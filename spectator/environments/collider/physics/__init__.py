"""Physics of the simulation: rates, peaks, backgrounds, decay angles and triggers, as pure functions."""
