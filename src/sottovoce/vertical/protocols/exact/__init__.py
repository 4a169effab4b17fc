"""Training without noise: parties show their columns, and one table is trained."""
