"""Commentary lines, and the voices that speak them."""
