"""Lou and Cheung (AAAI 2018): block-coordinate Frank-Wolfe, and its private form over columns at parties."""
