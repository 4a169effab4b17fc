"""Training without noise, by L-BFGS."""
