"""Viewers of live episodes: the wire, each viewer's feed, the broadcaster, shards and the wall."""
