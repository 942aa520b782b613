"""The effect of each action on a campaign."""
