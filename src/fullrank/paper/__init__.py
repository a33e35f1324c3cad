"""The paper's experiments as data, their runs, and what they say."""
