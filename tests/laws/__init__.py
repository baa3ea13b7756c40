"""Laws that every training step obeys, on random jobs, and the documented cases in which intuition fails."""
