"""The ball model: one delivery drawn from tables fitted to real matches, given plans and situation."""
