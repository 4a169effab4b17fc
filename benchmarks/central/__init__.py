"""One table in one place: accuracy, solvers, speed."""
