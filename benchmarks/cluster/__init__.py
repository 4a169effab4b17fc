"""One table on many machines."""
