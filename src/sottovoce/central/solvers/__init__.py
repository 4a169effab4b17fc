"""The central solvers, one a file: a frozen plan that runs."""
