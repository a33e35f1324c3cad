"""Train, evaluate and predict: one run is one folder."""
