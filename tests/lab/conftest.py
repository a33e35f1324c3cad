"""Settings of the lab's tests."""

from hypothesis import settings

# How long an example takes says nothing about it on a busy machine.
settings.register_profile("lab", deadline=None)
settings.load_profile("lab")
