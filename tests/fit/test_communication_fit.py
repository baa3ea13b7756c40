"""The affine fit: known truth, noise that the fit does not assume, a second solver, intervals, and the verdict."""

import math

import numpy as np
import pytest
import scipy.optimize

from wirebound.errors import InputError
from wirebound.fit.communication import ROBUST_SCALE, _fit_point, _refit, fit_communication, link_parameters

SIZES = [2.0**power for power in range(10, 25)]


def line(alpha, beta, sizes=SIZES):
    return [alpha + beta * size for size in sizes]


@pytest.mark.parametrize(("alpha", "beta"), [(3e-4, 8e-10), (1e-6, 1e-7), (5e-3, 1e-11), (2e-5, 8e-12)])
def test_exact_data_gives_the_truth(alpha, beta):
    fit = fit_communication(SIZES, line(alpha, beta))
    assert fit.alpha_s == pytest.approx(alpha, rel=1e-6)
    assert fit.beta_s_per_byte == pytest.approx(beta, rel=1e-6)
    assert fit.bandwidth_Bps == pytest.approx(1 / beta, rel=1e-6)
    assert max(map(abs, fit.relative_residuals)) < 1e-6
    assert fit.flags == ()
    assert "describes all 15 sizes" in fit.verdict
    assert fit.time_s(1e6) == pytest.approx(alpha + beta * 1e6)


@pytest.mark.parametrize(
    "noise",
    [
        lambda rng, n: rng.gamma(400, 1 / 400, n),
        lambda rng, n: rng.uniform(0.92, 1.08, n),
        lambda rng, n: np.exp(rng.laplace(0, 0.03, n)),
    ],
    ids=["gamma", "uniform", "laplace"],
)
def test_noisy_data_gives_nearly_the_truth_and_honest_intervals(noise):
    rng = np.random.default_rng(7)
    inside_alpha = inside_beta = 0
    errors = []
    for trial in range(100):
        alpha, beta = 10 ** rng.uniform(-5, -3), 10 ** rng.uniform(-10, -8.5)
        times = np.array(line(alpha, beta)) * noise(rng, len(SIZES))
        fit = fit_communication(SIZES, times, resamples=400, seed=trial)
        inside_alpha += fit.alpha_ci95[0] <= alpha <= fit.alpha_ci95[1]
        inside_beta += fit.beta_ci95[0] <= beta <= fit.beta_ci95[1]
        errors.append(abs(fit.beta_s_per_byte / beta - 1))
    # 95 % nominal; a bootstrap of 15 points falls a little short.
    assert inside_alpha >= 85
    assert inside_beta >= 85
    assert np.median(errors) < 0.03


def test_additive_waiting_time_is_no_trouble_for_medians():
    rng = np.random.default_rng(11)
    sizes, times = [], []
    for size in SIZES:
        for _ in range(25):
            late = rng.exponential(3e-3) if rng.random() < 0.15 else 0.0  # a scheduler slice now and then
            sizes.append(size)
            times.append((2e-4 + 1e-9 * size) * rng.gamma(900, 1 / 900) + late)
    fit = fit_communication(sizes, times)
    assert fit.alpha_s == pytest.approx(2e-4, rel=0.03)
    assert fit.beta_s_per_byte == pytest.approx(1e-9, rel=0.02)
    assert len(fit.sizes) == len(SIZES)


def test_one_wild_point_pulls_little():
    times = line(1e-4, 1e-9)
    times[12] *= 10
    fit = fit_communication(SIZES, times)
    assert fit.beta_s_per_byte == pytest.approx(1e-9, rel=0.1)
    assert "large-residuals" in fit.flags


def objective(alpha, beta, sizes, times):
    z = (np.log((alpha + beta * sizes) / times) / ROBUST_SCALE) ** 2
    return float(np.sum(2 * (np.sqrt(1 + z) - 1)))


@pytest.mark.parametrize("seed", range(8))
def test_two_other_solvers_agree(seed):
    rng = np.random.default_rng(seed)
    alpha, beta = 10 ** rng.uniform(-5, -3), 10 ** rng.uniform(-10, -8.5)
    sizes = np.array(SIZES)
    times = np.array(line(alpha, beta)) * np.exp(0.1 * rng.standard_t(3, len(SIZES)))
    found = _fit_point(sizes, times)
    best = scipy.optimize.minimize(
        lambda x: objective(math.exp(x[0]), math.exp(x[1]), sizes, times),
        [math.log(alpha), math.log(beta)],
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000},
    )
    assert found == pytest.approx(np.exp(best.x), rel=1e-4)
    alphas, betas = _refit(sizes, np.log(times)[None], alpha, beta, rounds=60)
    assert (alphas[0], betas[0]) == pytest.approx(found, rel=1e-4)


def test_same_input_same_output_and_another_seed_nearly():
    times = np.array(line(1e-4, 1e-9)) * np.random.default_rng(5).uniform(0.95, 1.05, len(SIZES))
    first, second, third = (fit_communication(SIZES, times, seed=seed) for seed in (1, 1, 2))
    assert first == second
    assert first.alpha_s == third.alpha_s
    assert first.alpha_ci95 != third.alpha_ci95
    assert first.alpha_ci95 == pytest.approx(third.alpha_ci95, rel=0.05)


def test_intervals_are_widened_for_few_sizes(monkeypatch):
    # The middle 95 % of a uniform ±1 % is ±0.95 %; Student's t of one degree of freedom (12.706 for 1.960) widens it.
    def resampled(sizes, log_times, alpha, beta):
        return alpha * np.linspace(0.99, 1.01, 2001), beta * np.linspace(0.8, 1.2, 2001)

    monkeypatch.setattr("wirebound.fit.communication._refit", resampled)
    sizes = [1e3, 1e5, 1e6]
    fit = fit_communication(sizes, line(1e-4, 1e-9, sizes))
    half = 0.0095 * 12.7062 / 1.95996
    assert fit.alpha_ci95 == pytest.approx((1e-4 * (1 - half), 1e-4 * (1 + half)), rel=1e-5)
    # ±19 % widened in the same way would reach below 0
    assert fit.beta_ci95 == (0.0, pytest.approx(1e-9 * (1 + 20 * half), rel=1e-5))


def test_resampled_lines_stay_above_zero():
    """Two points on a line through negative values: the other parameter alone lies halfway between them, by ratio."""
    sizes = np.array([1.0, 2.0])
    alphas, betas = _refit(sizes, np.log([[1.0, 2.2], [1.1, 1.0]]), 1.0, 1.0)
    # 1 and 2.2 want −0.2 + 1.2·S: β·1 against 1 and β·2 against 2.2 balance at √1.1; so does α against 1.1 and 1
    assert alphas == pytest.approx([0, math.sqrt(1.1)], abs=1e-6)
    assert betas == pytest.approx([math.sqrt(1.1), 0], abs=1e-6)


def test_order_of_points_does_not_matter():
    times = line(1e-4, 1e-9)
    assert fit_communication(SIZES[::-1], times[::-1]) == fit_communication(SIZES, times)


@pytest.mark.parametrize("ranks", [2, 3, 8, 64])
def test_link_parameters_invert_the_ring(ranks):
    latency_s, bandwidth = 30e-6, 1.25e9
    # 2(P−1) rounds, each one latency and a P-th of the buffer.
    times = [2 * (ranks - 1) * (latency_s + size / ranks / bandwidth) for size in SIZES]
    link = link_parameters(fit_communication(SIZES, times), "ring-allreduce", ranks)
    assert link.latency_s == pytest.approx(latency_s, rel=1e-6)
    assert link.bandwidth == pytest.approx(bandwidth, rel=1e-6)
    assert link.utilization == 1


def test_link_parameters_refuse():
    fit = fit_communication(SIZES, line(1e-4, 1e-9))
    with pytest.raises(InputError, match="use ring-allreduce"):
        link_parameters(fit, "gossip", 2)
    with pytest.raises(InputError, match="at least 2"):
        link_parameters(fit, "ring-allreduce", 1)
    flat = fit_communication(SIZES, [1e-3] * len(SIZES))
    assert flat.beta_s_per_byte == 0
    assert flat.bandwidth_Bps == math.inf
    assert "beta-unresolved" in flat.flags
    with pytest.raises(InputError, match="no bandwidth"):
        link_parameters(flat, "ring-allreduce", 2)


def test_parameters_are_never_negative():
    falling = fit_communication(SIZES[:4], [4e-3, 3e-3, 2e-3, 1e-3])
    assert falling.beta_s_per_byte == 0
    assert falling.alpha_s > 0
    through_zero = fit_communication(SIZES, [1e-9 * size * (0.9 if size < 1e4 else 1) for size in SIZES])
    assert 0 <= through_zero.alpha_s < 1e-7
    assert through_zero.alpha_ci95[0] == 0


def flags(sizes, times):
    return set(fit_communication(sizes, times).flags)


def test_verdict_names_what_is_wrong():
    good = line(1e-4, 1e-9)
    assert "too-few-sizes" in flags(SIZES[:4], good[:4])
    assert "narrow-range" in flags([1e6, 2e6, 3e6, 4e6, 5e6], line(1e-4, 1e-9, [1e6, 2e6, 3e6, 4e6, 5e6]))
    falling = [time * (2.0 if size >= 2**23 else 1.0) for size, time in zip(SIZES, good, strict=True)]
    fit = fit_communication(SIZES, falling)
    assert "falling-bandwidth" in fit.flags
    assert "at 16 MiB it is" in fit.verdict
    slow_small = [time * (4.0 if size <= 2**11 else 1.0) for size, time in zip(SIZES, good, strict=True)]
    fit = fit_communication(SIZES, slow_small)
    assert {"large-residuals", "jump"} <= set(fit.flags)
    assert "holds from 4 KiB up" in fit.verdict


def test_two_modes_are_seen_and_scatter_is_not():
    rng = np.random.default_rng(3)
    sizes = [size for size in SIZES for _ in range(20)]
    scatter = [(3e-4 + 1e-9 * size) * rng.lognormal(0, 0.3) for size in sizes]
    assert "bimodal" not in flags(sizes, scatter)
    modes = [
        time + (3.5e-3 if size < 2**15 and rng.random() < 0.4 else 0) for size, time in zip(sizes, scatter, strict=True)
    ]
    fit = fit_communication(sizes, modes)
    assert "bimodal" in fit.flags
    assert "two groups" in fit.verdict


def test_small_and_large_messages_are_reported_apart():
    times = [3e-4 if size < 2**16 else 1e-4 + 1e-9 * size for size in SIZES]
    fit = fit_communication(SIZES, times)
    assert fit.small.sizes == 6
    assert fit.small.beta_s_per_byte < 1e-15
    assert fit.small.alpha_s == pytest.approx(3e-4, rel=1e-4)
    assert fit.large.sizes == 9
    assert fit.large.smallest == 2**16
    assert fit.large.alpha_s == pytest.approx(1e-4, rel=1e-4)
    assert fit.large.beta_s_per_byte == pytest.approx(1e-9, rel=1e-4)
    assert fit.large.worst_residual < 1e-4
    assert fit_communication(SIZES[8:], times[8:]).small is None


@pytest.mark.parametrize(
    ("sizes", "times", "part"),
    [
        ([1, 2], [1.0], "2 sizes but 1 times"),
        ([], [], "at least two sizes"),
        ([1024, 1024], [1.0, 2.0], "at least two sizes"),
        ([1, 2, 3], [1.0, math.nan, 1.0], "time 1 is nan"),
        ([1, 0, 3], [1.0, 1.0, 1.0], "size 1 is 0"),
        ([1, 2, math.inf], [1.0, 1.0, 1.0], "size 2 is inf"),
        ([1, 2, 3], [1.0, 1.0, -1.0], "time 2 is -1"),
    ],
)
def test_bad_points_are_named(sizes, times, part):
    with pytest.raises(InputError, match=part):
        fit_communication(sizes, times)


def test_two_points_give_a_line_without_an_interval():
    fit = fit_communication([1e3, 1e6], [2e-4, 1.2e-3])
    assert fit.time_s(1e3) == pytest.approx(2e-4, rel=1e-6)
    assert fit.time_s(1e6) == pytest.approx(1.2e-3, rel=1e-6)
    assert fit.alpha_ci95 == (0.0, math.inf)


def test_many_sizes_are_grouped():
    sizes = np.arange(1000, 101_000)
    noise = np.random.default_rng(3).lognormal(0, 0.02, len(sizes))
    fit = fit_communication(sizes, (1e-4 + 1e-9 * sizes) * noise)
    assert fit.alpha_s == pytest.approx(1e-4, rel=5e-3)
    assert fit.beta_s_per_byte == pytest.approx(1e-9, rel=2e-2)
    assert len(fit.sizes) <= 256
    assert list(fit.sizes) == sorted(set(fit.sizes))
    assert "100,000 sizes were grouped into" in fit.verdict
    assert not fit.flags
    # what is not more than the limit stays as it is
    few = fit_communication(sizes[:256], (1e-4 + 1e-9 * sizes[:256]))
    assert (len(few.sizes), "grouped" in few.verdict) == (256, False)


def test_the_bootstrap_pairs_spread_as_the_intervals_say_and_keep_the_correlation():
    rng = np.random.default_rng(5)
    sizes = [2.0**power for power in range(12, 18)]  # α and β·S alike, so that one makes up for the other
    fit = fit_communication(sizes, np.array(line(1e-4, 3e-9, sizes)) * rng.gamma(900, 1 / 900, len(sizes)))
    alphas, betas = np.array(fit.bootstrap).T
    assert len(alphas) == 200
    for values, (low, high) in ((alphas, fit.alpha_ci95), (betas, fit.beta_ci95)):
        assert 0.90 <= np.mean((values >= low) & (values <= high)) <= 0.99
    assert np.corrcoef(alphas, betas)[0, 1] < -0.3
    # drawn one by one, the same values would make times that the measurements exclude
    together = np.std(alphas + betas * sizes[3])
    apart = np.std(alphas + rng.permutation(betas) * sizes[3])
    assert together < 0.9 * apart


def test_two_sizes_leave_nothing_to_resample():
    assert fit_communication([1e3, 1e6], [1e-4, 1e-3]).bootstrap == ()
