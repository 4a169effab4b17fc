"""Frank-Wolfe on the l1 ball over columns at several parties."""
