"""Columns released once, with noise."""
