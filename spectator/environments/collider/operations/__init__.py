"""What each action does to a campaign."""
