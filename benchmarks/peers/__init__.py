"""Other servers that send the same to every viewer, to compare with.

Each prints its port and the process that counts, then obeys lines ``MESSAGES BYTES TIMES INTERVAL_S``: so
many messages of so many bytes at once, so many times. It prints a line when it is done.
"""
