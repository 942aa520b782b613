"""Tools that make the shipped data and reports; not part of the wheel."""
