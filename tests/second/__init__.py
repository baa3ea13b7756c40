"""A second, independent implementation of the training step, for tests only.

Written from the model's equations and the papers, with SimPy: workers are processes, links are resources, and what
the package states as closed forms (2(P−1) steps of S/P bytes around a ring, say) follows here from the messages. It
imports nothing of `wirebound.simulate`; a test holds that.
"""
