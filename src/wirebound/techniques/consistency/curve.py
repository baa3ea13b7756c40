"""How good the models were that a run kept: evaluated when it is over, so that no worker waits for it."""

from collections.abc import Sequence

from torch import Tensor
from torch.nn.utils import vector_to_parameters

from wirebound.techniques.consistency.plan import Plan, Point
from wirebound.techniques.learning.data import DataSet
from wirebound.techniques.learning.evaluation import evaluate
from wirebound.techniques.learning.models import learning_model


def evaluated(plan: Plan, data: DataSet, kept: Sequence[tuple[int, float]], models: Tensor) -> tuple[Point, ...]:
    """Return a point for each kept model: (updates, seconds) and a row of `models` (kept, parameters)."""
    model = learning_model(plan.model, data, plan.seed)
    points = []
    for (updates, seconds), values in zip(kept, models, strict=True):
        vector_to_parameters(values, model.parameters())
        quality = evaluate(model, data)
        points.append(Point(updates, seconds, quality.loss, quality.accuracy))
    return tuple(points)
