"""Labels released once; a private model at each party."""
