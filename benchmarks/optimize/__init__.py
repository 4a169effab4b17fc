"""Block-coordinate Frank-Wolfe without privacy."""
