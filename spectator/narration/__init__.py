"""Narration: commentary lines, and the voices that speak them."""
