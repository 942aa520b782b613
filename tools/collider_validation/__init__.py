"""The validation of the collider analysis, which writes docs/reports/collider-physics.md."""
