"""Workloads, peers and stopwatches behind ``fullrank bench``."""
