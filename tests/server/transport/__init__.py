"""Tests of viewers' connections, over real sockets."""
