"""Steppers: how an environment is stepped away from the event loop."""
