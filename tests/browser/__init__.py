"""The tests of the pages in a real browser."""
