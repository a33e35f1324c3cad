"""All graphs of a set in flat arrays."""
