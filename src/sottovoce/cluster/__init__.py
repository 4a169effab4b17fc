"""One table on many machines: its rows stay in the workers of a cluster."""
