"""Routes and pages: control, history, catalog, health, audio, leaderboard."""
