"""The loop that plays one episode, and what it needs: plan, controls, pacing, contract checks."""
