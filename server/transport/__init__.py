"""Viewers' connections: uvicorn's socket taken over after the handshake, and the compiled send loop."""
