"""Owns the hand-over of recorded events to whoever listens now."""
