"""The tests of the OpenEnv contract."""
