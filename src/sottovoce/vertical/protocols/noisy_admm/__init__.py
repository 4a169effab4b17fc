"""ADMM on clipped, noisy scores."""
