"""What viewers see and hear: the projection, the commentary and its spoken form."""
