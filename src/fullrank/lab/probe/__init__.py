"""Any layer, observed while it runs: its calls, its Jacobian, the rank it keeps, and
its collisions."""
