"""Private Frank-Wolfe on the l1 ball."""
