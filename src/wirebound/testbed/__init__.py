"""Real distributed runs on one machine, over links of a chosen speed: what predictions are tested against."""
