"""The layers' sums over pairs made fast.

``sums`` multiplies once per node instead of once per pair, by ordinary operations.
``portable`` computes the same on any device and keeps nothing for the backward pass.
``cpu`` does so in blocks of pairs that stay in the processor's cache. ``autograd``
makes them operators of torch, with derivatives. ``dispatch`` chooses between them, and
nothing else does.
"""
