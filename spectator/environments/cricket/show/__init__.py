"""The viewers' side: the projection, the commentary and its spoken form."""
