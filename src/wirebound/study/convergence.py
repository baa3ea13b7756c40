"""The experiments on accuracy: what is trained with which compressors, and how learning rates are chosen.

Every method learns at the rate that is good for no compression, but for signSGD, whose values are −1 and 1 whatever the
gradient is: it has a grid of its own. Both grids are tried with a seed that is used for nothing else, and the smallest
rate is taken that comes close to the best, for a rate at the edge of what is stable would put compressors at a
disadvantage. That flatters compressors: no compression is neither as accurate nor as fast as at its best rate.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from wirebound.errors import unknown_name
from wirebound.simulate.compressors import compressor_named
from wirebound.techniques.learning.runs import Curve, LearningRun

TUNING_SEED = 1000
#: A rate is good where it reaches this share of the best accuracy of the grid.
GOOD_SHARE = 0.99
#: Methods that higher rates of the grid are tried with: does compression narrow the range of rates that work?
RATE_SENSITIVE = ("none", "onebit", "ef-signsgd", "qsgd:1", "randomk:0.01", "topk:0.01", "dgc:0.01")


@dataclass(frozen=True, slots=True)
class Task:
    """What is learned, for how long, which rates are tried, and the compressors that are compared on it.

    `batch_size` is each worker's. `sweep` says whether settings of compressors are varied on it.
    """

    name: str
    data: str
    model: str
    steps: int
    batch_size: int
    points: int
    test_samples: int | None
    rates: tuple[float, ...]
    sign_rates: tuple[float, ...]
    compressors: tuple[str, ...]
    seeds: int
    sweep: bool = False

    def run(
        self, rate: float, seed: int, compressor: str = "none", *, error_feedback: bool = True, warm_up: bool = False
    ) -> LearningRun:
        """Return one run; DGC's warm-up takes a fifth of its steps."""
        return LearningRun(
            data=self.data,
            model=self.model,
            steps=self.steps,
            learning_rate=rate,
            seed=seed,
            compressor=None if compressor == "none" else compressor_named(compressor),
            error_feedback=error_feedback,
            warm_up_steps=self.steps // 20 if warm_up else 0,
            batch_size=self.batch_size,
            points=self.points,
            test_samples=self.test_samples,
        )


_MAIN = (
    *("none", "fp16", "onebit", "signsgd", "ef-signsgd", "qsgd:16", "terngrad"),
    *("randomk:0.01", "topk:0.01", "gtopk:0.01", "dgc:0.01", "powersgd:4"),
)
TASKS = (
    Task(
        name="digits, MLP",
        data="digits",
        model="mlp",
        steps=150,
        batch_size=16,
        points=15,
        test_samples=None,
        rates=(0.02, 0.05, 0.15),
        sign_rates=(0.0003, 0.001, 0.003),
        compressors=(*_MAIN, "bf16", "terngrad-shared"),
        seeds=5,
        sweep=True,
    ),
    Task(
        name="MNIST, CNN",
        data="mnist",
        model="cnn",
        steps=120,
        batch_size=8,
        points=10,
        test_samples=400,
        rates=(0.02, 0.05, 0.15),
        sign_rates=(0.0001, 0.0003, 0.001),
        compressors=_MAIN,
        seeds=3,
    ),
    Task(
        name="text, transformer",
        data="text",
        model="transformer",
        steps=80,
        batch_size=4,
        points=8,
        test_samples=64,
        rates=(0.03, 0.1, 0.3),
        sign_rates=(0.0001, 0.0003, 0.001),
        compressors=_MAIN,
        seeds=3,
    ),
)


def task_named(name: str) -> Task:
    """Return the task with the data set `name`; raises `InputError` for an unknown one."""
    tasks = {task.data: task for task in TASKS}
    if name not in tasks:
        raise unknown_name("task", name, tasks)
    return tasks[name]


def tuning_runs(task: Task) -> list[LearningRun]:
    """Return the runs that choose the learning rates: no compression and signSGD, each on its grid."""
    plain = [task.run(rate, TUNING_SEED) for rate in task.rates]
    return plain + [task.run(rate, TUNING_SEED, "signsgd") for rate in task.sign_rates]


def good_rates(curves: Sequence[Curve]) -> dict[str, float]:
    """Return for each compressor of the tuning runs its smallest rate that reaches `GOOD_SHARE` of its best."""
    reached: dict[str, dict[float, float]] = {}
    for curve in curves:
        reached.setdefault(curve.run.label, {})[curve.run.learning_rate] = curve.last_accuracy
    return {
        label: min(rate for rate, accuracy in grid.items() if accuracy >= GOOD_SHARE * max(grid.values()))
        for label, grid in reached.items()
    }


def comparison_runs(task: Task, rates: dict[str, float], seeds: Sequence[int]) -> list[LearningRun]:
    """Return the runs of all compressors of a task, at the `rates` that tuning chose."""
    return [
        task.run(rates.get(compressor, rates["none"]), seed, compressor)
        for compressor in task.compressors
        for seed in seeds
    ]


def sweep_runs(task: Task, rates: dict[str, float], seeds: Sequence[int]) -> list[LearningRun]:
    """Return the runs that vary settings: shares and error feedback, levels, ranks, DGC's warm-up, learning rates."""
    rate = rates["none"]
    runs = []
    for seed in seeds:
        for share in (0.1, 0.01, 0.001):
            for name in ("topk", "randomk"):
                for feedback in (True, False):
                    runs.append(task.run(rate, seed, f"{name}:{share:g}", error_feedback=feedback))
        for share in (0.01, 0.001):
            runs += [task.run(rate, seed, f"dgc:{share:g}", warm_up=warm_up) for warm_up in (True, False)]
        runs += [task.run(rate, seed, f"qsgd:{levels}") for levels in (1, 4, 64)]
        runs += [task.run(rate, seed, f"powersgd:{rank}") for rank in (1, 2)]
        runs += [task.run(rate, seed, name, error_feedback=False) for name in ("onebit", "ef-signsgd")]
        runs += [task.run(each, seed, name) for each in task.rates if each >= rate for name in RATE_SENSITIVE]
    return list(dict.fromkeys(runs))
