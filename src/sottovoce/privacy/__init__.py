"""Adjacency, events, accounting, mechanisms and the receipt. Nothing here sees a table."""
