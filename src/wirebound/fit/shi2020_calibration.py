"""Calibration of the cluster of Shi et al. (2020): least squares over runs, and how sure its figures are."""

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from wirebound.fit.prediction_interval import IntervalFactor, conformal_factor
from wirebound.fit.shi2020_model import Calibration, slowest_path
from wirebound.fit.shi2020_runs import NETWORKS, Run
from wirebound.fit.shi2020_settings import method_of, workload_of
from wirebound.simulate.messages import planned_messages

_NOMINAL = tuple(zip(NETWORKS, (1.25e9, 12.5e9, 12.5e9), strict=True))
#: TCP payload on 10 Gbit/s Ethernet: 1,448 of the 1,538 bytes of a frame. The servers' rate there is not fitted: runs
#: tell only (2 − overlap) ÷ rate of each network, so one rate must be known.
SERVER_GOODPUT_10GBE = 1.25e9 * 1448 / 1538
#: Each calibrated figure: name, network or "", start, least and largest value. A link cannot beat its nominal rate,
#: nor a PCIe 3.0 slot its 16 GB/s.
FIGURES: tuple[tuple[str, str, float, float, float], ...] = (
    ("intra_all_reduce", "", 6e9, 1e9, 16e9),
    ("intra_server", "", 6e9, 1e9, 16e9),
    *(("inter_all_reduce", name, 0.5 * rate, 0.05 * rate, rate) for name, rate in _NOMINAL),
    *(("inter_server", name, 0.5 * rate, 0.05 * rate, rate) for name, rate in _NOMINAL[1:]),
    ("message_s", "", 3e-5, 1e-7, 1e-2),
    *(("hop_s", name, 1e-5, 1e-7, 1e-3) for name in NETWORKS),
    ("server_message_s", "", 3e-5, 1e-7, 1e-2),
    ("push_pull_overlap", "", 0.1, 1e-3, 1.0),
    ("bert_contention", "", 0.3, 1e-3, 1.0),
    ("bert_unhidden_s_per_byte", "", 1e-10, 1e-13, 1e-9),
)
_START, _LEAST, _LARGEST = (np.log([figure[column] for figure in FIGURES]) for column in (2, 3, 4))
#: Residuals beyond this are taken to be a run's own trouble, and count less.
_ROBUST_SCALE = 0.05
_SPREAD_OF_STARTS = 0.7
_FIRST_STEPS = 10
#: Fits to resampled measurements start next to their end, and their spread is far wider than this.
_RESAMPLED_TOLERANCE = 1e-4


def calibrate(runs: Iterable[Run], starts: int = 12) -> Calibration:
    """Return the figures that make the engine fit `runs`, whose schedules must not depend on the network's cost.

    Robust least squares (soft L1, scale 5 %) on the logarithm of predicted ÷ measured iteration time, over the
    logarithms of the figures, within bounds. There are local minima: of `starts` seeded starts the three that are best
    after a few steps go on, and the best of these is taken. Deterministic.
    """
    rows = Rows(runs)
    draw = np.random.default_rng(0)
    points = [_START, *(_START + draw.normal(0, _SPREAD_OF_STARTS, (starts - 1, len(FIGURES))))]
    begun = sorted((_fit(rows, rows.measured_s, point, steps=_FIRST_STEPS) for point in points), key=lambda fit: fit[1])
    ended = [_fit(rows, rows.measured_s, logarithms) for logarithms, _ in begun[:3]]
    return calibration_of(np.exp(min(ended, key=lambda fit: fit[1])[0]))


def bootstrap(runs: Iterable[Run], calibration: Calibration, samples: int = 60, seed: int = 0) -> np.ndarray:
    """Return figures calibrated anew to `samples` resampled measurements, an array (samples, figures) as `FIGURES`.

    Wild bootstrap: each run's logarithmic residual, scaled up for the degrees of freedom that the fit used, gets a
    random sign. Every fit starts from `calibration`.
    """
    rows = Rows(runs)
    fitted_s = rows.iteration_s(calibration)
    freedom = max(1, len(fitted_s) - len(FIGURES))
    residuals = np.log(rows.measured_s / fitted_s) * np.sqrt(len(fitted_s) / freedom)
    start = np.log(values_of(calibration))
    signs = np.random.default_rng(seed).choice((-1.0, 1.0), (samples, len(fitted_s)))
    return np.exp(
        [_fit(rows, fitted_s * np.exp(sign * residuals), start, tolerance=_RESAMPLED_TOLERANCE)[0] for sign in signs]
    )


def intervals(
    runs: Iterable[Run], calibration: Calibration, samples: int = 60, seed: int = 0
) -> list[tuple[float, float]]:
    """Return a 95 % interval of each figure, in the order of `FIGURES`: percentiles of `bootstrap`.

    An interval holds its estimate, also where this lies at a bound and no sample reaches it.
    """
    low, high = np.percentile(bootstrap(runs, calibration, samples, seed), [2.5, 97.5], axis=0)
    estimate = values_of(calibration)
    return list(zip(np.minimum(low, estimate).tolist(), np.maximum(high, estimate).tolist(), strict=True))


def by_setting(run: Run) -> tuple[str, str, int]:
    """All runs of one workload, method and size: what choices of the model were compared by."""
    return run.workload, run.method, run.gpus


def by_method(run: Run) -> str:
    """All runs of one method: most held-out runs are of methods that nothing was calibrated on."""
    return run.method


def cross_validated_errors(
    runs: Iterable[Run], calibration: Calibration, left_out: Callable[[Run], Hashable] = by_setting
) -> np.ndarray:
    """Return log(predicted ÷ measured) of each run when all runs for which `left_out` gives the same are left out.

    The fits start from `calibration`, that of all `runs`. The spread of these errors is what a prediction's interval
    comes from (`wirebound.fit.prediction_interval`).
    """
    runs = list(runs)
    keys = [left_out(run) for run in runs]
    start = np.log(values_of(calibration))
    errors = np.empty(len(runs))
    for key in dict.fromkeys(keys):
        tested = np.array([own == key for own in keys])
        kept = Rows(run for run, out in zip(runs, tested, strict=True) if not out)
        found = calibration_of(np.exp(_fit(kept, kept.measured_s, start)[0]))
        rows = Rows(run for run, out in zip(runs, tested, strict=True) if out)
        errors[tested] = np.log(rows.iteration_s(found) / rows.measured_s)
    return errors


def prediction_factors(
    runs: Iterable[Run], calibration: Calibration, levels: Sequence[float] = (0.8, 0.9, 0.95)
) -> list[IntervalFactor]:
    """Return the interval of a predicted step for each level, from the calibration's `runs` alone.

    Each method in turn is left out and predicted, as a method that was never calibrated on is; the runs of one
    workload and method count as one draw.
    """
    runs = list(runs)
    errors = cross_validated_errors(runs, calibration, by_method).tolist()
    return [conformal_factor(errors, [(run.workload, run.method) for run in runs], level) for level in levels]


def calibration_of(values: Sequence[float] | np.ndarray) -> Calibration:
    """Return the calibration with these values, in the order of `FIGURES`."""
    fields: dict[str, object] = {"inter_server": {NETWORKS[0]: SERVER_GOODPUT_10GBE}}
    for (name, network, *_), value in zip(FIGURES, values, strict=True):
        if network:
            by_network = fields.setdefault(name, {})
            assert isinstance(by_network, dict)
            by_network[network] = float(value)
        else:
            fields[name] = float(value)
    return Calibration(**fields)  # type: ignore[arg-type]


def values_of(calibration: Calibration) -> np.ndarray:
    """Return the calibrated figures in the order of `FIGURES`."""
    values = [(getattr(calibration, name), network) for name, network, *_ in FIGURES]
    return np.array([value[network] if network else value for value, network in values])


def at_bound(calibration: Calibration, tolerance: float = 1e-3) -> list[bool]:
    """Return for each of `FIGURES` whether its value is at the end of what it was allowed."""
    logarithms = np.log(values_of(calibration))
    near = (logarithms - _LEAST < tolerance) | (_LARGEST - logarithms < tolerance)
    return [bool(is_near) for is_near in near]


class Rows:
    """Runs as arrays: what of their steps does not depend on the calibration, a row each.

    A step is evaluated by the closed form of a first-come-first-served queue, which equals the engine:
    finish = max over i of (ready_i + Σ_{j≥i} cost_j). Messages are padded to the longest list; one that is never ready
    counts for nothing.
    """

    def __init__(self, runs: Iterable[Run]) -> None:
        self.runs = list(runs)
        steps = [_queue(run) for run in self.runs]
        self.measured_s = np.array([run.iteration_s for run in self.runs])
        self._forward_s, self._backward_s, self._size = (
            np.array([getattr(step, name) for step in steps]) for name in ("forward_s", "backward_s", "size")
        )
        self._bert = np.array([run.is_bert for run in self.runs])
        longest = max(len(step.ready_s) for step in steps)
        self._ready_s = np.full((len(steps), longest), -np.inf)
        self._count_left = np.zeros((len(steps), longest))
        self._bytes_left = np.zeros((len(steps), longest))
        for row, step in enumerate(steps):
            columns = slice(0, len(step.ready_s))
            self._ready_s[row, columns] = step.ready_s
            self._count_left[row, columns] = step.count_left
            self._bytes_left[row, columns] = step.bytes_left
        # Runs with the same architecture, network and size have the same message cost.
        cells = [(run.architecture, run.network, run.gpus) for run in self.runs]
        numbers = {cell: index for index, cell in enumerate(dict.fromkeys(cells))}
        self._cell = np.array([numbers[cell] for cell in cells])
        self._examples = [self.runs[cells.index(cell)] for cell in numbers]

    def iteration_s(self, calibration: Calibration) -> np.ndarray:
        """Return the predicted seconds of one step of every run."""
        paths = [slowest_path(run, calibration) for run in self._examples]
        startup_s, s_per_byte = np.array([(path.startup_s, path.s_per_byte) for path in paths])[self._cell].T
        left_s = startup_s[:, None] * self._count_left + s_per_byte[:, None] * self._bytes_left
        end_s = np.max(self._ready_s + left_s, axis=1)
        network_s = left_s[:, 0]
        after_s = np.maximum(self._backward_s, end_s)
        both_s = np.maximum(0.0, self._backward_s + network_s - after_s)
        bert_s = calibration.bert_contention * both_s + calibration.bert_unhidden_s_per_byte * self._size
        return np.asarray(self._forward_s + after_s + np.where(self._bert, bert_s, 0.0))


@dataclass(frozen=True, slots=True)
class _Queue:
    """When messages of one step become ready, and how many messages and bytes are then still to send, in order."""

    forward_s: float
    backward_s: float
    size: int
    ready_s: np.ndarray
    count_left: np.ndarray
    bytes_left: np.ndarray


@functools.cache
def _queue(run: Run) -> _Queue:
    workload = workload_of(run)
    planned = planned_messages(workload, method_of(run))
    # Of messages that are ready together the first decides: it has the others' transfers before it.
    ready_s, first = np.unique([message.ready_s for message in planned], return_index=True)
    return _Queue(
        forward_s=workload.forward_s,
        backward_s=workload.backward_s,
        size=workload.size,
        ready_s=ready_s,
        count_left=np.arange(len(planned), 0, -1)[first],
        bytes_left=np.cumsum([message.size for message in planned][::-1])[::-1][first],
    )


def _fit(
    rows: Rows, measured_s: np.ndarray, start: np.ndarray, steps: int = 100, tolerance: float = 1e-6
) -> tuple[np.ndarray, float]:
    """Return the logarithms of the figures after at most `steps` steps from `start`, and the cost of this fit."""

    def residuals(logarithms: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(rows.iteration_s(calibration_of(np.exp(logarithms))) / measured_s))

    inside = np.clip(start, _LEAST + 1e-6, _LARGEST - 1e-6)
    found = least_squares(
        residuals,
        inside,
        bounds=(_LEAST, _LARGEST),
        loss="soft_l1",
        f_scale=_ROBUST_SCALE,
        ftol=tolerance,
        xtol=tolerance,
        max_nfev=steps,
    )
    return found.x, float(found.cost)
