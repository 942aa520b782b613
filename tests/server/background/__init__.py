"""Tests of the work beside requests."""
