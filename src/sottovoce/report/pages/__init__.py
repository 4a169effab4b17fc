"""Receipts as pages to read."""
