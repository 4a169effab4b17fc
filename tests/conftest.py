"""Settings for every test: hypothesis draws the same examples in each run, without a time limit for each."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")
