"""Synchronization of gradients as real code on `torch.distributed`: the seven techniques of Shi et al. (2020).

Read in this order: `layout` (which gradients share a message), `synchronizer` (hooks on a model), `allreduce`, `merge`,
`server` and `server_worker`, `priority`, `priority_allreduce`, `priority_server`. `catalogue` has them all by name.
"""
