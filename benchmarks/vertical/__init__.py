"""Columns at several parties."""
