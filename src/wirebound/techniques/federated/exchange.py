"""One round's exchange: what a client downloads, what it uploads, and what the server makes of all uploads."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from wirebound.errors import InputError
from wirebound.techniques.compress.payload import Payload
from wirebound.techniques.federated.coders import Stream
from wirebound.techniques.federated.fetchsgd import FetchSgd
from wirebound.techniques.federated.flat import FlatModel
from wirebound.techniques.federated.reduction import Reduction
from wirebound.techniques.federated.sketch import CountSketch
from wirebound.techniques.federated.streams import PLACES, TABLE, generator
from wirebound.techniques.federated.submodel import SubModels
from wirebound.techniques.federated.subspace import Subspace

#: Rows of the count sketch, as Rothchild et al. use.
SKETCH_ROWS = 5
#: So many elements change in a round for each cell of the sketch; with more, noise is taken for large elements.
CHANGED_PER_CELL = 0.02


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a client is handed: a model to train, and where its change may lie.

    `places` are those of the model's weights in the server's vector, None if it is the whole model.
    """

    stream: Stream
    model: FlatModel
    places: Tensor | None
    subspace: Subspace | None
    download: Payload


@dataclass(frozen=True, slots=True)
class Upload:
    """What a client sends back; `samples` is its weight in the mean."""

    assignment: Assignment
    payload: Payload
    samples: int


class Exchange:
    """A reduction at work in one run, with what server and clients remember from round to round.

    `momentum` and `learning_rate` are those of FetchSGD's server; the others add the mean change as it is.
    """

    def __init__(
        self, reduction: Reduction, module: nn.Module, seed: int, momentum: float = 0.0, learning_rate: float = 1.0
    ) -> None:
        self._reduction, self._seed = reduction, seed
        self.whole = FlatModel(module)
        self._coder = reduction.coder()
        self._smaller = None if reduction.units_share is None else SubModels(module, reduction.units_share)
        self._fetch: FetchSgd | None = None
        self.weights = self.whole.weights.clone()
        if reduction.sketch_share is not None:
            cells = math.ceil(reduction.sketch_share * len(self.weights))
            columns = math.ceil(cells / SKETCH_ROWS)
            self._sketch = CountSketch(len(self.weights), SKETCH_ROWS, columns, generator(seed, TABLE))
            self._fetch = FetchSgd(self._sketch, math.ceil(CHANGED_PER_CELL * cells), momentum, learning_rate)

    def hand_out(self, round_number: int, client: int) -> Assignment:
        """Return what a client downloads; its model holds the weights until the next call."""
        random = generator(self._seed, PLACES, round_number, client, 1)
        model, places = self.whole, None
        if self._smaller is not None:
            smaller = self._smaller.draw(random)
            model, places = smaller.model, smaller.places
        download = Payload((self.weights if places is None else self.weights[places],))
        model.weights.copy_(download.buffers[0])
        subspace = None if self._reduction.subspace is None else self._reduction.subspace(model, random)
        return Assignment((self._seed, round_number, client), model, places, subspace, download)

    def encode(self, assignment: Assignment, change: Tensor, samples: int) -> Upload:
        """Return what a client sends of its change."""
        if self._fetch is not None:
            payload = Payload((self._sketch.sketch(change).view(-1),))
        else:
            payload = self._coder.encode(change, assignment.stream)
        return Upload(assignment, payload, samples)

    def merge(self, uploads: Sequence[Upload]) -> None:
        """Change the server's weights by the mean of the uploads, weighted by samples.

        Of Federated Dropout, a weight's mean is over the clients that had it; a weight that none had stays.
        """
        if not uploads:
            raise InputError("no client sent anything: a round needs at least one")
        if self._fetch is not None:
            every = sum(upload.samples for upload in uploads)
            tables = [upload.payload.buffers[0] * (upload.samples / every) for upload in uploads]
            self.weights += self._fetch.step(torch.stack(tables).sum(0).view(self._sketch.rows, -1))
            return
        total, samples = torch.zeros_like(self.weights), torch.zeros_like(self.weights)
        for upload in uploads:
            change, places = self._change_of(upload), upload.assignment.places
            if places is None:
                total.add_(change, alpha=upload.samples)
                samples += upload.samples
            else:
                total.index_add_(0, places, change, alpha=upload.samples)
                samples[places] += upload.samples
        self.weights += total / samples.clamp(min=1)

    def _change_of(self, upload: Upload) -> Tensor:
        subspace, model = upload.assignment.subspace, upload.assignment.model
        elements = len(model.weights) if subspace is None else subspace.size
        decoded = self._coder.decode(upload.payload, elements, upload.assignment.stream)
        return decoded if subspace is None else subspace.expand(decoded)
