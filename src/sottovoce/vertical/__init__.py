"""Several organisations hold different columns about the same people: alignment and training without one table."""
