"""ADMM sharing with the noise of Hu et al. (2019), and why it protects nobody."""
