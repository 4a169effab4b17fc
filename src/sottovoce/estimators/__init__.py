"""The scikit-learn layer: thin estimators over the solvers, one family a file."""
