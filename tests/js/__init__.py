"""The tests of the page's pure modules."""
