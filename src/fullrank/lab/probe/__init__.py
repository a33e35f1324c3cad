"""Any layer, observed while it runs: what it is called with, its Jacobian, how much
rank it keeps, and neighbourhoods that it confuses."""
