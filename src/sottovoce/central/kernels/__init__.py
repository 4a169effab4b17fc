"""Compiled code: all that costs time per record."""
