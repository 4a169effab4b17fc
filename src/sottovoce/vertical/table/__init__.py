"""One party's columns as numbers: products, bounds."""
