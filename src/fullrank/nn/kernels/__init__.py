"""Sums over edges, made fast."""
