"""Federated learning: many clients that keep their data, one server, and an uplink that decides.

Read in this order: `split` (whose data are not alike), `flat` (a model as one vector), `client` (what a client does
with it), `simulation` (the rounds). What makes an update smaller: `submodel` (Federated Dropout), `subspace` (random
mask and low rank), `coders` with `quantize` and `rotation`, `sketch` with `fetchsgd`. `reduction` has them all by name.

Clients run one after another in one process. Real are the algorithms, the data and the buffers whose bytes are
counted; how long a round would take over links is computed in `wirebound.simulate.federated`.
"""
