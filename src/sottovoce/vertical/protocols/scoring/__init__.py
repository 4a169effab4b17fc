"""Scores of people, and columns that are shown as they are."""
