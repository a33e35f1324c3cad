"""The sums of :mod:`fullrank.nn.functional` made fast.

``portable`` multiplies once per node instead of once per edge, with ordinary operations
on any device. ``cpu`` does the same in blocks of edges that stay in the processor's
cache, forward and backward. ``dispatch`` chooses between them, and nothing else does.
"""
