"""Training on columns that are held by several parties."""
