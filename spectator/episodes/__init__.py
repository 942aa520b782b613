"""Episodes: playing, recording, replaying and hosting them."""
