"""Columns of the same people at several organisations: training together without bringing the columns together."""
