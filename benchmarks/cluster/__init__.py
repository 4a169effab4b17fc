"""Budgets that outlive processes."""
