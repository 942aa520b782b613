"""A server that plays nothing: it follows episodes at another one and shows them to viewers of its own."""
