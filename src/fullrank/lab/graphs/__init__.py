"""Whole graphs: which pairs are told apart."""
