"""Imports: runs of other programs, read from their files into a journal that the pages show."""
