"""Wirebound: is the network the bottleneck of distributed training, and what helps?

Data flows one way: profile → fit → simulate → study → book.
"""

__version__ = "0.1.0"
