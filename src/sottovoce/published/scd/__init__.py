"""Forms of DP-SCD as printed and beside it, for comparison: their noise is right, their accuracy behind."""
