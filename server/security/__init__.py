"""What protects the process: who may do what, bounded requests, and the table from errors to answers."""
