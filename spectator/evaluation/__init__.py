"""Evaluation: figures read from recorded episodes, and what can be concluded about captains."""
