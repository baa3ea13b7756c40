"""Experiments on what is next for compression: ratios by tensor and by round, and differences in time."""
