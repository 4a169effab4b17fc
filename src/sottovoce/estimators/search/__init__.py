"""A private search: one winner of many models, charged once."""
