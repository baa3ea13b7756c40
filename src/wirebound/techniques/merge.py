"""MG-WFBP (Shi et al. 2019): wait-free backpropagation whose messages carry several tensors where that pays.

Which tensors to merge depends on when gradients become ready and on the network's α and β: that is decided before
training (`wirebound.simulate.schedules.mg_wfbp_ends`) and arrives here as lists of names. On the wire, BSP, WFBP and
MG-WFBP differ in nothing but these lists.
"""

from collections.abc import Sequence

from torch import nn

from wirebound.techniques.allreduce import AllReduce
from wirebound.techniques.process_group import Group
from wirebound.techniques.recorder import Recorder


def mg_wfbp(
    model: nn.Module,
    group: Group,
    groups: Sequence[Sequence[str]],
    *,
    unused_parameters: bool = False,
    recorder: Recorder | None = None,
) -> AllReduce:
    """Merged-gradient WFBP: one message for each of `groups`, which name every trainable parameter once.

    Raises `InputError` where they do not.
    """
    return AllReduce(model, group, groups, unused_parameters=unused_parameters, recorder=recorder)
