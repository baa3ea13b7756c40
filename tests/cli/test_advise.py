"""advise: every number is predict's, the ranking of known cases, and both sides of every threshold."""

import json
import shlex

import pytest

from wirebound.model.method import METHOD_NAMES

VGG = ["--workload", "vgg16", "--gpus", "64", "--bandwidth", "10 Gbps", "--method", "ddp"]
#: Jobs of every kind: bound by bandwidth, by latency and by compute, inside nodes, with servers and with options.
JOBS = [
    VGG,
    ["--workload", "resnet50", "--gpus", "64", "--bandwidth", "100 Gbps", "--latency", "50 us", "--method", "wfbp-a2a"],
    ["--workload", "resnet18", "--gpus", "4", "--bandwidth", "400 Gbps", "--method", "mg-wfbp"],
    [
        *[
            "--workload",
            "resnet101",
            "--gpus",
            "32",
            "--gpus-per-node",
            "8",
            "--bandwidth",
            "25 Gbps",
            "--method",
            "ddp",
        ],
        *["--intra-bandwidth", "100 Gbps", "--utilization", "0.6", "--bucket-cap", "10 MiB", "--collective", "tree"],
    ],
    ["--workload", "vgg16", "--gpus", "16", "--bandwidth", "1 Gbps", "--method", "wfbp-ps", "--servers", "4"],
    [
        *["--workload", "resnet50", "--gpus", "16", "--bandwidth", "100 Gbps", "--method", "horovod"],
        *["--compressor", "topk:0.01"],
    ],
    ["--workload", "vgg16", "--gpus", "8", "--gpus-per-node", "8", "--intra-bandwidth", "8 Gbps", "--method", "ddp"],
    ["--workload", "vgg16", "--gpus", "1", "--method", "ddp"],
]
NAMES = ["bandwidth", "latency", "compute", "nodes", "servers", "compressor", "one-node", "one-gpu"]


ADVICE: dict[tuple[str, ...], str] = {}


@pytest.fixture
def advised(wirebound):
    """The document of advise for a job; several tests look at the same one, which takes a second or two."""

    def run(*job):
        if job not in ADVICE:
            code, ADVICE[job], err = wirebound("advise", *job, "--json")
            assert (code, err) == (0, "")
        return json.loads(ADVICE[job])

    return run


@pytest.fixture
def asked(wirebound):
    """What a printed command answers, with some of its options changed; it must have nothing to complain about."""

    def run(command, **changes):
        program, *words = shlex.split(command)
        assert program == "wirebound"
        for name, value in changes.items():
            flag = f"--{name}"
            words = [*words, flag] if flag not in words else words
            at = words.index(flag) + 1
            words[at : at + 1] = [value]
        code, out, err = wirebound(*words, "--json")
        assert (code, err) == (0, "")
        answer = json.loads(out)
        return (
            answer["consistency"] | {"iteration_s": answer["consistency"]["period_s"]}
            if "consistency" in answer
            else answer
        )

    return run


@pytest.mark.parametrize("job", JOBS, ids=NAMES)
def test_every_number_is_what_predict_says_to_the_printed_command(advised, document, asked, job):
    advice = advised(*job)
    base = document("predict", *job)
    assert advice["baseline"] == base
    assert asked(advice["command"])["iteration_s"] == base["iteration_s"]
    for remedy in advice["remedies"]:
        answer = asked(remedy["command"])
        assert answer["iteration_s"] == remedy["iteration_s"], remedy["command"]
        assert answer["samples_per_s"] == remedy["samples_per_s"]
        assert remedy["gain"] == remedy["samples_per_s"] / base["samples_per_s"]
        assert (remedy["found_under"] == "consistency") is ("waiting" in answer)
        assert set(remedy["price"]) == {"accuracy", "hardware", "code"}


@pytest.mark.parametrize("job", JOBS, ids=NAMES)
def test_the_largest_gain_comes_first_and_no_use_of_the_network_exceeds_the_bound(advised, job):
    advice = advised(*job)
    gains = [remedy["gain"] for remedy in advice["remedies"]]
    assert gains == sorted(gains, reverse=True)
    assert [remedy["rank"] for remedy in advice["remedies"]] == list(range(1, len(gains) + 1))
    bound = advice["bottleneck"]["bound"]
    base = advice["baseline"]
    assert bound == pytest.approx(1 / base["scaling_factor"], rel=1e-12)
    exposed = base["exposed_communication_s"] / base["iteration_s"]
    assert 0 <= advice["bottleneck"]["network_share"] <= exposed * (1 + 1e-9)
    for remedy in advice["remedies"]:
        if remedy["name"] not in ("batch", "accumulation"):  # these also spread the optimizer over more samples
            assert remedy["gain"] <= bound * (1 + 1e-9), remedy["change"]


@pytest.mark.parametrize("job", JOBS[:6], ids=NAMES[:6])
def test_both_sides_of_every_threshold(advised, asked, job):
    """At slightly less and more than the bandwidth of a flip the printed commands answer as it says."""
    advice = advised(*job)
    commands = {remedy["change"]: (remedy["name"], remedy["command"]) for remedy in advice["remedies"]}
    commands["doing nothing"] = ("nothing", advice["command"])
    tried = 0
    for remedy in advice["remedies"]:
        for flip in remedy["flips"]:
            for factor, side in ((1 - 1e-4, "below"), (1 + 1e-4, "above")):
                gbps = f"{flip['bandwidth_Bps'] / 125e6 * factor!r} Gbps"
                rates = []
                for change in (remedy["change"], flip["against"]):
                    name, command = commands[change]
                    rates.append(
                        asked(command, **({} if name == "bandwidth" else {"bandwidth": gbps}))["samples_per_s"]
                    )
                assert (rates[0] >= flip["gain"] * rates[1]) is (side == flip["side"]), flip
            tried += 1
    assert tried >= 3


def best(advice, count=5):
    return [remedy["name"] for remedy in advice["remedies"][:count]]


def test_bound_by_bandwidth(advised, wirebound):
    advice = advised(*VGG)
    assert advice["bottleneck"]["answer"] == "yes"
    assert advice["bottleneck"]["gains"]["bandwidth"] > 4 > 1.1 > advice["bottleneck"]["gains"]["latency"]
    assert {"compressor", "bandwidth"} <= set(best(advice))
    by_change = {remedy["change"]: remedy for remedy in advice["remedies"]}
    # what a merged message could save is latency, which is 0 here
    assert by_change["mg-wfbp instead of ddp"]["gain"] < 1.1
    # where coding takes longer than it saves: never at 10 Gbps, for certain beyond some bandwidth
    flip = next(f for f in by_change["powersgd:4 instead of none"]["flips"] if "own work" in f["text"])
    assert (flip["gain"], flip["side"]) == (1 / 1.001, "below")
    assert flip["bandwidth_Bps"] > 1.25e9
    _, out, _ = wirebound("advise", *VGG)
    first = out.splitlines()[0]
    assert first.startswith(f"Is the network the bottleneck? Yes: it costs {advice['bottleneck']['network_share']:.1%}")
    assert f"{advice['bottleneck']['bound']:.3g}×" in first


def test_bound_by_latency(advised):
    """161 messages of 126 latencies each: fewer messages help, more bandwidth does not."""
    advice = advised(*JOBS[1])
    gains = advice["bottleneck"]["gains"]
    assert gains["latency"] > 5 > 1.2 > gains["bandwidth"]
    assert advice["remedies"][0]["name"] in ("method", "collective")
    by_change = {remedy["change"]: remedy["gain"] for remedy in advice["remedies"]}
    assert by_change["mg-wfbp instead of wfbp-a2a"] > 3
    assert by_change["ddp instead of wfbp-a2a"] > 3
    assert all(remedy["gain"] < 1.2 for remedy in advice["remedies"] if remedy["name"] == "bandwidth")


def test_bound_by_compute(advised, wirebound):
    advice = advised(*JOBS[2])
    assert advice["bottleneck"]["answer"] == "no"
    assert advice["remedies"][0]["gain"] < 1.03
    _, out, _ = wirebound("advise", *JOBS[2])
    lines = out.splitlines()
    share, bound = advice["bottleneck"]["network_share"], advice["bottleneck"]["bound"]
    assert f"No: it costs {share:.1%} of the step" in lines[0]
    assert f"the gain would be {bound - 1:.1%}" in lines[0]
    assert "less than 1 %" in out


def test_a_compressor_that_costs_more_than_it_saves_is_advised_against(advised, document):
    advice = advised(*JOBS[5])
    assert advice["bottleneck"]["gains"]["encoding and decoding"] > 1.3
    dropped = next(r for r in advice["remedies"] if r["change"] == "no compressor instead of topk:0.01")
    assert dropped["rank"] <= 8
    plain = document("predict", *JOBS[5][:-2])
    assert dropped["samples_per_s"] == plain["samples_per_s"]
    assert "--compressor" not in dropped["command"]


def test_full_utilization_is_advised_where_it_is_not_reached(advised, document):
    job = [*VGG, "--utilization", "0.3"]
    remedy = next(r for r in advised(*job)["remedies"] if r["name"] == "full utilization")
    assert remedy["samples_per_s"] == document("predict", *VGG)["samples_per_s"]
    assert all(r["name"] != "full utilization" for r in advised(*VGG)["remedies"])


def test_every_other_method_is_tried_and_only_the_best_bucket_limit(advised, asked):
    advice = advised(*VGG, "--bucket-cap", "100 MiB")
    methods = {r["change"].split()[0] for r in advice["remedies"] if r["name"] == "method"}
    assert methods == set(METHOD_NAMES) - {"ddp"}
    (fusion,) = [r for r in advice["remedies"] if r["name"] == "fusion"]
    for cap in ("1 MiB", "25 MiB", "400 MiB"):
        other = asked(fusion["command"], **{"bucket-cap": cap, "first-bucket-cap": cap})
        assert other["samples_per_s"] <= fusion["samples_per_s"]


def test_gains_of_an_uncertain_job_have_intervals_and_ties(advised, wirebound):
    job = ["--workload", "resnet18", "--gpus", "16", "--method", "ddp"]
    job += ["--bandwidth", "5 Gbps..15 Gbps", "--latency", "0 us..20 us", "--samples", "40"]
    advice = advised(*job)
    worthwhile = [r for r in advice["remedies"] if r["gain"] >= 1.01]
    before = None
    for remedy in worthwhile:
        low, high = remedy["gain_interval95"]
        assert low < high
        assert remedy["tied_with_previous"] is (before is not None and high >= before[0])
        before = low, high
    assert any(r["tied_with_previous"] for r in worthwhile)
    assert advised(*VGG)["remedies"][0]["gain_interval95"] is None
    _, out, _ = wirebound("advise", *job)
    assert "tied with the one before" in out
    assert "(95 %: " in out


def test_a_fitted_network_made_faster_stays_uncertain(advised, tmp_path):
    fit = {"schema": "wirebound-fit", "version": 1, "collective": "ring-allreduce", "ranks": 4, "flags": []}
    fit |= {"verdict": "", "link_latency_s": 1e-5, "link_bandwidth_Bps": 1.25e9}
    # compute alone hides nothing of this job: with all of its time on the wire, twice the bandwidth gains nearly twice
    fit |= {"bootstrap": {"alpha_s": [6e-5, 6e-5], "beta_s_per_byte": [1e-9, 1.4e-9]}}
    path = tmp_path / "fit.json"
    path.write_text(json.dumps(fit), encoding="utf-8")
    job = ["--workload", "vgg16", "--gpus", "64", "--method", "ddp", "--network", str(path), "--samples", "10"]
    advice = advised(*job)
    twice = next(r for r in advice["remedies"] if r["change"].startswith("2× the bandwidth"))
    low, high = twice["gain_interval95"]
    assert 1 < low < high < 2
    assert high / low < 1.05


def test_the_text_shows_what_to_ask_and_the_rest_in_short(wirebound, asked):
    code, out, err = wirebound("advise", *VGG, "--top", "2")
    assert (code, err) == (0, "")
    lines = [line.strip() for line in out.splitlines()]
    commands = [line.removeprefix("ask").strip() for line in lines if line.startswith("ask ")]
    assert len(commands) == 2
    for command in commands:
        assert asked(command)["iteration_s"] > 0
    assert any(line.startswith("less gain") for line in lines)
    assert any(line.startswith("price     accuracy: ") for line in lines)
    assert lines[-1].startswith("assumed ")


def test_help_has_an_example(wirebound):
    code, out, _ = wirebound("advise", "--help")
    assert code == 0
    assert "Example: wirebound advise --workload vgg16" in " ".join(out.split())


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--top", "0"], "--top 0 must be at least 1"),
        (["--samples", "1"], "--samples 1 must be between"),
        (["--method", "dpd"], "did you mean 'ddp'"),
        (["--bandwidth", "ten"], "--bandwidth: 'ten' is not a bandwidth"),
        (["--gpus", "0"], "--gpus 0 must be"),
    ],
)
def test_mistakes_are_one_line(wirebound, options, complaint):
    code, out, err = wirebound("advise", *VGG, *options)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert complaint in err
