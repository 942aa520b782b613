"""Histograms of how long the work of the server takes, for Prometheus."""
