"""The Laws of cricket: formats, deliveries, the scorer of an innings, results."""
