"""The paper's theory: aggregators, their partial order, coefficient matrices, and the
derivation of Re-SUM's three stages."""
