"""The server: HTTP and WebSocket routes, viewers, limits and settings."""
