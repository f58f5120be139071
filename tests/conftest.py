"""Property tests repeat exactly and have no time limit of their own: the machine may be busy."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.load_profile("repeatable")
