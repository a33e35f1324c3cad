"""Whole graphs: the Weisfeiler-Leman test, pairs of graphs that it confuses, and which
of them a model distinguishes."""
