"""Runs in a journal on a database server, which any number of processes on any machines play together."""
