"""The cost models and the simulation. `simulate.step` and what it imports use the standard library only."""
