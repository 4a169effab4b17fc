"""Figures, tables and grids of the paper on DP-SCD, by its own protocol."""
