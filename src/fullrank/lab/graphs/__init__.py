"""Whole graphs: the Weisfeiler-Leman test, pairs of graphs that it does not
distinguish, and which of them a model distinguishes."""
