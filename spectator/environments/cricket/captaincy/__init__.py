"""Captains: the tools they use, what they see, and the captains that need no model."""
