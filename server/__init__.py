"""The process edge: the only place that knows HTTP, WebSockets and the process environment."""
