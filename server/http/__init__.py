"""Routes and pages: control, history, catalogue, health, audio, leaderboard."""
