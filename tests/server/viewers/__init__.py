"""Tests of the live protocol and of viewers."""
