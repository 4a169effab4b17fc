"""The scikit-learn layer of vertical training."""
