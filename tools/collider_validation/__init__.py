"""The validation of the collider analysis, which writes docs/collider-physics.md."""
