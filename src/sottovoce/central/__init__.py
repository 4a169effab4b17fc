"""One table and a trusted curator: plans, solvers and their kernels."""
