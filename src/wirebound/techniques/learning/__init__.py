"""Real data, small models and their evaluation: what the experiments on accuracy have in common."""
