"""Distributed Frank-Wolfe with the noise of Lou and Cheung (2018), and why it protects less than it says."""
