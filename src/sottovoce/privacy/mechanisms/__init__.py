"""Mechanisms: each releases a value and emits the event that is accounted for it, together."""
