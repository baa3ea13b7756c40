"""Training in real processes under BSP, SSP, ASP, local SGD and gossip, with compute times that are planned.

Read in this order: `plan` (what is asked and told), `learner` (one worker's model), `server` and `server_worker`
(BSP, SSP, ASP), `averaging` (local SGD, gossip), `run` (all processes), `curve` (how good the models were, and when).
"""
