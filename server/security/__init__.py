"""Protection of the server: permissions, limits, and error responses."""
