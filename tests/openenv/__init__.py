"""Owns the tests of the OpenEnv contract."""
