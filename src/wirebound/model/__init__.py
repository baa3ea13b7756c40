"""The nouns of the study: workload, cluster, method, step. Standard library only."""

from wirebound.model.cluster import Cluster, Link
from wirebound.model.compressor import Codec, Compressor
from wirebound.model.method import METHODS, Method, method_named
from wirebound.model.step import Message, Stages, Step
from wirebound.model.workload import Tensor, Workload

__all__ = [
    "METHODS",
    "Cluster",
    "Codec",
    "Compressor",
    "Link",
    "Message",
    "Method",
    "Stages",
    "Step",
    "Tensor",
    "Workload",
    "method_named",
]
