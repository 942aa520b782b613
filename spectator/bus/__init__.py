"""The event bus: hands recorded events to whoever listens now."""
