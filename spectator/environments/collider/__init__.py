"""The collider world: plan a search for a new particle, record collisions, analyse them, claim or decline."""
