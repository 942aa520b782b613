"""The ball model: draws deliveries from tables fitted to real matches."""
