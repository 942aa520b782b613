"""Owns what a captain is worth: figures read from recorded episodes, and what can be concluded from them."""
