"""The tests of the process edge."""
