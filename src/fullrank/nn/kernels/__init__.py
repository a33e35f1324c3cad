"""Fast implementations of the layers' sums over pairs.

``sums`` multiplies once per node instead of once per pair, with ordinary operations.
``portable`` computes the same on any device and keeps nothing for the backward pass.
``cpu`` does so in blocks of pairs that fit in the processor's cache. ``autograd``
registers them as differentiable torch operators. ``dispatch`` is the only code that
chooses between them.
"""
