"""Any layer, probed."""
