"""Generated cases have no time limit: these tests share their machine with others."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
