"""Claims of discovery as files: what was frozen, what was opened, what was claimed, and how to check it."""
