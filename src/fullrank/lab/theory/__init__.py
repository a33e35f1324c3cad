"""Aggregators, their order, coefficient matrices."""
