"""Training without noise, by L-BFGS or ADMM sharing."""
