"""The server process: its listening socket, its orderly shutdown and its log."""
