"""Workloads, baselines and measurements of ``fullrank bench``."""
