"""The rule gives each verdict where it should, and every claim turns the way that its sentence says.

Each claim has a lever: a change of made-up records that makes its sentence true when pushed, and false when pulled.
"""

import math
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cases import loop
from factories import fake_records, with_reruns, write_fake_experiments, write_fake_study

from dmlrc import records
from dmlrc.errors import UsageError
from dmlrc.papers import fehervari2019, musgrave2020, roth2020
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import claims, labels, published, starts, statistics, tables, titles
from dmlrc.report.claims import card, figures, measures, named, page, rule, verdicts
from dmlrc.report.claims.claim import EXHIBITS, INTERVALS, SOURCES, Claim, Region
from dmlrc.report.claims.rule import INCONCLUSIVE, NOT_REPRODUCED, NOT_RUN, REPRODUCED, RETRACTED
from dmlrc.report.statistics import Estimate
from dmlrc.studies import experiments

BY_ID = {claim.id: claim for claim in claims.CLAIMS}
R1 = "precision_at_1"
RERUNS = 5
STEPS = (10, 20, 30, 40)
RATE = 1e-3
BEGUN = {16.0: 0.01, 2048.0: 0.02}  # the untrained trunk, by the size of the embedding
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SIX = roth2020.SAMPLED
AGGREGATED = (R1, "recall_at_2", "nmi", "f1", "map_at_c", "map_at_1000")
ORDERS = ("oi2021/random", *BY_ID["oi-default-order-map"].more)
OBJECTIVES = BY_ID["roth-saturation"].rows


def above(limit):
    return Region(low=limit)


def below(limit):
    return Region(high=limit)


def within(limit):
    return Region(-limit, limit)


# --- the rule


@pytest.mark.parametrize(
    ("region", "low", "high", "verdict"),
    [
        (above(0), 0.1, 0.3, REPRODUCED),
        (above(0), -0.3, -0.1, NOT_REPRODUCED),
        (above(0), -0.1, 0.1, INCONCLUSIVE),
        (above(0), 0.0, 0.1, INCONCLUSIVE),
        (below(0.1), -0.3, 0.05, REPRODUCED),
        (below(0.1), 0.11, 0.3, NOT_REPRODUCED),
        (below(0.1), 0.05, 0.15, INCONCLUSIVE),
        (within(0.5), -0.4, 0.4, REPRODUCED),
        (within(0.5), 0.6, 0.9, NOT_REPRODUCED),
        (within(0.5), -0.9, -0.6, NOT_REPRODUCED),
        (within(0.5), -0.6, 0.1, INCONCLUSIVE),
        (within(0.5), -0.6, 0.6, INCONCLUSIVE),
    ],
)
def test_verdict_of_an_interval(region, low, high, verdict):
    judged = rule.judge(region, Estimate((low + high) / 2, low, high, 5), full=True)
    assert judged.verdict == verdict
    assert bool(judged.why) == (verdict == INCONCLUSIVE)


def test_nothing_firm_without_budget_units_or_a_chance_to_fail():
    firm = Estimate(0.2, 0.1, 0.3, 3)
    assert rule.judge(above(0), firm, full=True).verdict == REPRODUCED
    assert rule.judge(above(0), firm, full=False).verdict == INCONCLUSIVE
    assert rule.judge(above(0), Estimate(0.2, 0.1, 0.3, 2), full=True).verdict == INCONCLUSIVE
    assert rule.judge(above(0), Estimate(0.2, math.nan, math.nan, 5), full=True).verdict == INCONCLUSIVE
    assert rule.judge(below(0.5), Estimate(0.2, 0.1, 0.3, 5, attainable=(-1, 0.4)), full=True).verdict == INCONCLUSIVE
    assert rule.judge(below(0.5), Estimate(0.2, 0.1, 0.3, 5, attainable=(-1, 0.6)), full=True).verdict == REPRODUCED
    for nothing in (Estimate(math.nan, math.nan, math.nan, 5), Estimate(0.0, 0.0, 0.0, 0)):
        assert rule.judge(above(0), nothing, full=True).verdict == NOT_RUN


FIRM = Estimate(0.2, 0.1, 0.3, 3)
# rule -> of `rule.judge` what makes it fire, and the nearest that does not
FIRES = {
    "budget": ({"full": False}, {"full": True}),
    "few": ({"estimate": replace(FIRM, n=2)}, {"estimate": FIRM}),
    "start": ({"below": (2, 3)}, {"below": (1, 2)}),
    "ends": ({"end_below": True}, {"end_below": False}),
    "fail": ({"estimate": replace(FIRM, attainable=(0.05, 1))}, {"estimate": replace(FIRM, attainable=(-0.05, 1))}),
    "at_most": ({"region": above(0.4), "at_most": True}, {"region": above(0.4)}),
    "crosses": ({"region": above(0.2)}, {"region": above(0.09)}),
}


@pytest.mark.parametrize("name", FIRES)
def test_a_rule_fires_where_it_must_and_nowhere_else(name):
    fires, spares = FIRES[name]
    found = rule.judge(**{"region": above(0), "estimate": FIRM, "full": True} | fires)
    assert (found.verdict, found.rule) == (INCONCLUSIVE, name)
    found = rule.judge(**{"region": above(0), "estimate": FIRM, "full": True} | spares)
    assert found.settled
    assert found.rule == ""


def test_every_rule_is_dated_and_tried():
    of_claims = {"rate", "batches", "limits", "retracted"}  # below
    assert set(rule.RULES) == {*FIRES, *of_claims}
    assert all({"rule", "since", "known"} == set(each) for each in rule.RULES.values())


@pytest.mark.parametrize(
    ("best", "withdrawn"),
    [
        ({"margin": RATE, "n_pairs": RATE}, ""),
        ({"margin": 3.3 * RATE, "n_pairs": RATE / 3.3}, ""),  # half a decade
        ({"margin": 10 * RATE, "n_pairs": RATE}, "Margin Loss"),  # as its paper prints it
        ({"margin": RATE, "n_pairs": RATE / 10}, "NPairs"),
        ({"margin": RATE}, "NPairs"),  # in no grid
    ],
)
def test_a_loss_off_its_rate_is_no_witness(base, best, withdrawn):
    claim = BY_ID["fehervari-margin-like-npairs"]
    judged = rule.judge_claim(claim, base | {claim.grid: grid(best)})
    assert (judged.verdict == RETRACTED, judged.rule == "rate") == (bool(withdrawn), bool(withdrawn))
    assert judged.why.endswith(withdrawn)
    assert rule.judge_claim(claim, base | {claim.grid: None}).rule == "rate"
    unnamed = replace(claim, named=())
    assert rule.judge_claim(unnamed, base | {claim.grid: None}).verdict == REPRODUCED


def test_a_sentence_that_names_a_loss_asks_for_its_rate():
    words = (
        "contrastive",
        "triplet",
        "cosface",
        "arcface",
        "margin",
        "normalised softmax",
        "proxynca",
        "structured clustering",
    )
    judged = [claim for claim in claims.CLAIMS if claim.needs and not (claim.retracted or claim.on_batches)]
    naming = [claim for claim in judged if any(word in claim.claim.lower() for word in words)]
    assert {claim.id for claim in naming} == {claim.id for claim in judged if claim.named}
    assert len(naming) > 20


def test_sentences_on_batches_are_withdrawn_and_no_others(base, monkeypatch):
    def unasked(*_):
        raise measures.MissingRowsError

    monkeypatch.setattr(Claim, "estimate", unasked)  # the numbers of all others
    found = {claim.id for claim in claims.CLAIMS if claim.needs and rule.judge_claim(claim, base).rule == "batches"}
    assert found == {
        *("roth-batch-size", "roth-spc2-over-spc4", "roth-best-samplers", "roth-sampling-effect"),
        *("fehervari-batches", "fehervari-batches-proxy-softmax", "fehervari-batches-margin"),
    }


def test_no_limit_stands_just_outside_the_worst_table_of_its_paper():
    """But a tenth, of what papers claim."""
    for claim in claims.CLAIMS:
        values = list((claim.published or {}).values())
        for limit, worst in ((claim.region.low, min(values, default=0)), (claim.region.high, max(values, default=0))):
            around = abs(limit - worst) < 0.25 * abs(limit) and claim.region.holds(worst, worst)
            assert not around or "a tenth" in claim.rationale, claim.id


# --- made-up records of every experiment


def made(
    study, rows, metrics=(R1,), settings=("separated",), budget="full", curves=(), reruns=RERUNS, order=0, steps=STEPS
):
    """StudyRecords whose scores are 0.6, but for a little noise of the row and of the rerun. order: another noise."""
    rng = np.random.default_rng(len(study) + order)
    scores, runs, points = [], [], []
    for row in rows:
        for rerun in range(reruns):
            keys = [(setting, metric) for setting in settings for metric in metrics]
            own = np.random.default_rng(sum(map(ord, row))).normal(0, 0.002)
            scores += [(row, rerun, *key, 0.6 + own + rng.normal(0, 0.001)) for key in keys]
            runs.append((row, "rerun", rerun, 0, rerun, "complete", "limit", 100, 100, 1.0, 0.6, 0.6))
            points += [
                (row, "rerun", rerun, 0, step, metric, 0.3 + rng.normal(0, 0.001))
                for step in steps
                for metric in curves
            ]
    meta = {"study": study, "budget": {"name": budget, "trials": 0, "reruns": reruns}, "dataset": "glyphs"}
    protocol = {"embedding_dim": 128, "folds": 4, "members": 1, "lr": RATE, "patience": 9, "max_epochs": 9}
    meta |= {"parent": None, "protocol": protocol | {"lr_decay": "none"}, "complete": True}
    frames = {
        "trials": pd.DataFrame(columns=["method", "repetition", "trial", "state", "value"]),
        "runs": pd.DataFrame(
            runs,
            columns=[
                *("method", "kind", "number", "fold", "seed", "state", "stopped", "best_step", "steps", "seconds"),
                *("val_map_at_r", "val_precision_at_1"),
            ],
        ),
        "scores": pd.DataFrame(scores, columns=["method", "rerun", "setting", "metric", "value"]),
        "curves": pd.DataFrame(points, columns=["method", "kind", "number", "fold", "step", "metric", "value"]),
        "arrays": pd.DataFrame(columns=["method", "rerun", "setting", "name", "values"]),
    }
    return StudyRecords(**with_reruns(frames), meta=meta)


def grid(best):
    """Records of a grid of rates, in which each of these rows has its best at this one, and a worse one beside it."""
    rows = [(row, 1, rate, value) for row, rate in best.items() for rate, value in ((rate, 0.5), (rate / 3, 0.4))]
    trials = pd.DataFrame(rows, columns=["row", "trial", "level_number", "value"])
    return replace(made("rates", ["a"]), trials=trials)


def sweep_rows(rows, values):
    return [f"{row}@{value}" for row in rows for value in values]


@pytest.fixture(autouse=True)
def begun(monkeypatch):
    """Training begins far below every row."""
    monkeypatch.setattr(starts, "by_dimension", lambda main: pd.Series(BEGUN))


@pytest.fixture(scope="module")
def base():
    """Records of a main study and of all its experiments, in which all rows are alike but for noise."""
    main = [method.name for method in musgrave2020.METHODS]
    fehervari = [method.name for method in fehervari2019.METHODS]
    binary = ("separated", "separated_binary")
    oi = ("precision_at_1", "map_at_r", "jsd")
    found = {
        "main": made("main", main, (R1, "map_at_r"), ("separated", "concatenated")),
        "trunks": made("trunks", sweep_rows(["a", "b", "c", "d"], ["imagenet"])),
        "roth2020": made(
            "roth2020",
            [method.name for method in roth2020.METHODS],
            (*AGGREGATED, "rho", "pi_intra", "pi_inter", "pi_ratio"),
            ("separated", "train"),
        ),
        "roth2020/samplers": made("roth2020/samplers", sweep_rows(SIX, roth2020.SAMPLERS), AGGREGATED),
        "roth2020/batches-equal": made("roth2020/batches-equal", sweep_rows(SIX, ["batch8", "batch16", "batch32"])),
        "roth2020/decays": made("roth2020/decays", sweep_rows(SIX, ["decay0", "decay4e-05", "decay0.004"]), AGGREGATED),
        "roth2020/dims": made("roth2020/dims", sweep_rows(SIX, ["dim128", "dim512", "dim1024"])),
        "roth2020/preprocessing": made("roth2020/preprocessing", sweep_rows(SIX, ["base", "big", "red"])),
        "roth2020/trunks": made("roth2020/trunks", sweep_rows(SIX, ["one", "two", "three", "four-random"])),
        "fehervari2019": made("fehervari2019", fehervari, (R1, "nmi"), (*binary, "concatenated")),
        "fehervari2019/dims": made("fehervari2019/dims", sweep_rows(fehervari[:-1], ["dim16", "dim64", "dim512"])),
        "fehervari2019/batches-equal": made(
            "fehervari2019/batches-equal", sweep_rows(fehervari[:-1], ["batch8", "batch32", "batch128"])
        ),
        "zhai2019": made("zhai2019", ["norm_softmax", "lmcl"], settings=binary),
        "zhai2019/losses-equal": made(
            "zhai2019/losses-equal",
            [*sweep_rows(["norm_softmax", "contrastive", "margin"], ["5x15"]), "norm_softmax@1x75"],
        ),
        "zhai2019/layer_norm": made(
            "zhai2019/layer_norm", sweep_rows(["norm_softmax"], ["layer-norm", "no-layer-norm"]), curves=("loss",)
        ),
        "oi2021": made("oi2021", ["normalized_softmax"], oi, curves=(*oi, *(f"train_{name}" for name in oi))),
    }
    three = sweep_rows(["contrastive", "triplet", "supcon"], ["usual", "searched"])
    rows = [*three, "contrastive@untrained"]
    found["variance"] = made("variance", rows, curves=("pi_intra", "pi_inter"), steps=(4, 20, 40))
    found["after2019"] = made("after2019", ["supcon"], settings=("concatenated",))
    for name in ("rates", "roth2020/rates", "fehervari2019/rates", "zhai2019/rates"):
        naming = [claim for claim in claims.CLAIMS if claim.named and claim.grid == name]
        found[name] = grid({row: RATE for claim in naming for row in claim.named})
    found |= {name: made(name, ["normalized_softmax"], oi, order=place) for place, name in enumerate(ORDERS)}
    pretrained = [
        (PRETRAINED, 0, setting, metric, 0.6)
        for setting in ("separated", "concatenated")
        for metric in (R1, "map_at_r")
    ]
    scores = pd.DataFrame(pretrained, columns=["method", "rerun", "setting", "metric", "value"])
    trials = pd.DataFrame(
        [(name, 0, number, "complete", 0.5 + 0.01 * number) for name in main for number in range(5)],
        columns=["method", "repetition", "trial", "state", "value"],
    )
    noise = np.random.default_rng(3).normal(0, 0.004, len(trials))
    trials["value"] += noise
    reruns = found["main"].reruns.assign(params=[{"loss_weights_lr": 1.0}] * len(found["main"].reruns))
    reruns = reruns.assign(repetition=reruns["rerun"])
    found["main"] = replace(
        found["main"], reruns=reruns, scores=pd.concat([found["main"].scores, scores], ignore_index=True), trials=trials
    )
    return found


def own(row):
    """What `made` adds to all scores of a row."""
    return np.random.default_rng(sum(map(ord, row))).normal(0, 0.002)


def lift(need, rows=None, metric=None, setting=None, by=None, value=None):
    """A lever: add an amount to the scores of these rows (all: None).

    by: method -> factor of the amount. value: only the rows of a sweep at these values.
    """

    def lever(found, amount):
        scores = found[need].scores
        factors = {name: by(name) if by else 1.0 for name in scores["method"].unique()}
        chosen = scores["method"].map(factors).astype(float)
        for column, wanted in (("row", rows), ("level", value), ("metric", metric), ("setting", setting)):
            if wanted is not None:
                chosen = chosen * scores[column].isin([wanted] if isinstance(wanted, str) else wanted)
        return found | {need: replace(found[need], scores=scores.assign(value=scores["value"] + amount * chosen))}

    return lever


def seesaw(one, other):
    """A lever: one for amounts above 0, another for those below."""
    return lambda found, amount: other(one(found, max(amount, 0)), max(-amount, 0))


def searched_again(lever):
    """A lever whose reruns are each of another search."""

    def again(found, amount):
        main = lever(found, amount)["main"]
        return found | {"main": replace(main, scores=main.scores.assign(repetition=main.scores["rerun"], rerun=0))}

    return again


def curve(need, metric, steps, row=None):
    """A lever: add an amount to a metric at these steps of the curves; None: the amount times the step."""

    def lever(found, amount):
        curves = found[need].curves
        chosen = (curves["metric"] == metric).astype(float)
        if row:
            chosen *= curves["method"].isin([row] if isinstance(row, str) else row)
        chosen *= curves["step"] if steps is None else curves["step"].isin(steps)
        return found | {need: replace(found[need], curves=curves.assign(value=curves["value"] + amount * chosen))}

    return lever


def together(found, amount):
    """A lever: MAP@R rises over the epochs, and JSD with it, or falls."""
    rising = curve("oi2021", "map_at_r", None)(found, abs(amount))
    return curve("oi2021", "jsd", None)(rising, amount)


def tuned(found, amount):
    """A lever: above 0 the trials but the best differ between methods, below 0 only the best one does."""
    trials = found["main"].trials
    place = trials["method"].map({method.name: number for number, method in enumerate(musgrave2020.METHODS)})
    best = trials["trial"] == 4
    change = -amount * place * ~best if amount > 0 else -amount * place * best
    return found | {"main": replace(found["main"], trials=trials.assign(value=trials["value"] + change))}


def rated(found, amount):
    """A lever: the rate of class weights in the best trials, by this power of ten from 1; a little more in each."""
    reruns = found["main"].reruns
    params = [{"loss_weights_lr": 10 ** (amount + 0.01 * rerun)} for rerun in reruns["rerun"]]
    return found | {"main": replace(found["main"], reruns=reruns.assign(params=params))}


def validated(found, amount):
    """A lever: the validation MAP@R of the main study's reruns."""
    runs = found["main"].runs
    return found | {"main": replace(found["main"], runs=runs.assign(val_map_at_r=runs["val_map_at_r"] + amount))}


def pattern(name):
    """A number for each row that has nothing to do with its scores."""
    return np.random.default_rng(sum(map(ord, name)) + 1).normal()


MAIN = [method.name for method in musgrave2020.METHODS]
JOINED = {"setting": "concatenated"}
REGULARISED = [pair[0] for pair in BY_ID["roth-regularisation"].measure["pairs"]]
FEHERVARI = [method.name for method in fehervari2019.METHODS if method.name != "dreml"]
LAST = [40]

# claim -> lever, the amount that makes the sentence true, amounts that make it false
LEVERS = {
    **dict.fromkeys(
        ("musgrave-flat-trend", "musgrave-flat-trend-without-2006"),
        (
            lift("main", metric=R1, by=lambda name: {m.name: m.year - 2012 for m in musgrave2020.METHODS}.get(name, 0)),
            0,
            (0.02, -0.02),
        ),
    ),
    "musgrave-gain-over-contrastive": (lift("main", "contrastive", R1), 0.1, (-0.2,)),
    "musgrave-gain-over-triplet": (lift("main", "triplet", R1), 0.1, (-0.2,)),
    "musgrave-gain-in-map": (lift("main", ["contrastive", "triplet"], "map_at_r"), 0.1, (-0.2,)),
    "musgrave-similar": (lift("main", "snr", "map_at_r"), 0, (0.2, -0.2)),
    "musgrave-one-function": (
        searched_again(lift("main", "normalized_softmax", "map_at_r")),
        own("proxy_nca") - own("normalized_softmax"),
        (0.1, -0.1),
    ),
    "musgrave-same-order": (lift("main", metric="map_at_r", by=own, **JOINED), 0, (-3,)),
    "musgrave-training-helps": (lift("main", MAIN, R1), 0.1, (-0.1,)),
    "musgrave-trunk-over-loss": (seesaw(lift("trunks", "a"), lift("main", "snr")), 0.2, (-0.2,)),
    "musgrave-tuning": (tuned, 0.05, (-0.05,)),
    "roth-saturation": (lift("roth2020", "angular", R1), 0, (0.2, -0.2)),
    "roth-leaders": (lift("roth2020", ["margin_12", "multi_similarity"], R1), 0.1, (-0.1,)),
    "roth-distance-mining": (lift("roth2020", "triplet_distance", R1), 0.1, (-0.1,)),
    "roth-rho-correlation": (lift("roth2020", metric="rho", by=own), -3, (1,)),
    "roth-rho-over-distances": (
        seesaw(
            lift("roth2020", metric=["pi_intra", "pi_inter", "pi_ratio"], by=pattern),
            lift("roth2020", metric="rho", by=pattern),
        ),
        1,
        (-1,),
    ),
    "roth-density": (lift("roth2020", metric="pi_ratio", by=own), 1, (-3,)),
    "roth-regularisation": (lift("roth2020", REGULARISED, R1), 0.1, (-0.1,)),
    "roth-regularisation-rho": (lift("roth2020", REGULARISED, "rho"), -0.1, (0.1,)),
    "roth-nmi-recall": (lift("roth2020", metric="nmi", by=own), 0, (-3,)),
    "roth-map-recall": (lift("roth2020", metric="map_at_c", by=own), 0, (-3,)),
    "roth-weight-decay": (lift("roth2020/decays", "histogram", value="decay0"), 0.2, (0,)),
    "roth-dims-128": (lift("roth2020/dims", "histogram", value="dim128"), -0.1, (0,)),
    "roth-augmentation": (lift("roth2020/preprocessing", value="red"), -0.1, (0.1,)),
    "roth-trunk-over-loss": (
        seesaw(lift("roth2020/trunks", value="one"), lift("roth2020/trunks", "histogram")),
        0.2,
        (-0.2,),
    ),
    "fehervari-clustering-nmi": (lift("fehervari2019", "structured_clustering", "nmi"), 0.1, (-0.1,)),
    "fehervari-clustering-recall": (lift("fehervari2019", "structured_clustering", R1), -0.1, (0.1,)),
    "fehervari-margin-like-npairs": (lift("fehervari2019", "margin", R1), 0, (0.1, -0.1)),
    "zhai-strong-baseline": (lift("zhai2019/losses-equal", "norm_softmax"), 0, (-0.1,)),
    "zhai-far-above-contrastive": (lift("zhai2019/losses-equal", "contrastive"), -0.3, (0,)),
    "zhai-bits-match-floats": (lift("zhai2019", "norm_softmax", setting="separated_binary"), 0, (-0.1,)),
    "zhai-layer-norm": (lift("zhai2019/layer_norm", value="layer-norm"), 0.1, (-0.1,)),
    "zhai-layer-norm-loss": (
        curve("zhai2019/layer_norm", "loss", LAST, "norm_softmax@layer-norm"),
        -0.1,
        (0.1,),
    ),
    "oi-default-order-recall": (lift("oi2021", metric=R1), -0.1, (0.1,)),
    "oi-default-order-map": (lift("oi2021", metric="map_at_r"), -0.1, (0.1,)),
    "oi-default-order-jsd": (lift("oi2021", metric="jsd"), -0.1, (0.1,)),
    "oi-jsd-shows-overfitting": (curve("oi2021", "train_jsd", LAST), 0.1, (-0.1,)),
    "oi-jsd-like-map": (together, 0.01, (-0.01,)),
    "oi-map-validation-over-test": (validated, 0.1, (-0.1,)),
    "fehervari-triplet-worst": (lift("fehervari2019", "triplet_semihard", R1), -0.1, (0.1,)),
    "fehervari-nca-over-triplet": (lift("fehervari2019", "proxy_nca", R1), 0.1, (-0.1,)),
    "zhai-lmcl": (lift("zhai2019", "lmcl", R1, "separated"), -0.1, (0.1,)),
    **{
        f"zeng-{loss}{ending}": (curve("variance", "pi_intra", LAST, f"{loss}@{level}"), 0.1, (-0.1,))
        for loss in ("triplet", "supcon")
        for ending, level in (("", "usual"), ("-searched", "searched"))
    },
    **{
        f"zeng-separation{ending}": (
            curve("variance", "pi_inter", LAST, [f"triplet@{level}", f"supcon@{level}"]),
            0.1,
            (-0.1,),
        )
        for ending, level in (("", "usual"), ("-searched", "searched"))
    },
    "zeng-early": (curve("variance", "pi_intra", [4], "contrastive@usual"), -0.1, (0.1,)),
    "zeng-earlier": (curve("variance", "pi_intra", [4], "contrastive@usual"), -0.1, (0.1,)),
    "zeng-top-1": (lift("main", ["contrastive"], R1, "concatenated"), -0.1, (0.1,)),
    "berton-small-batches": (lift("main", ["cosface", "arcface"], R1, "concatenated"), 0.1, (-0.1,)),
    "berton-weights-rate": (rated, 0, (-2,)),
}


# --- the claims


@pytest.fixture
def judge(monkeypatch):
    """`rule.judge_claim`, which asks once a study what no lever changes: that it is above its start."""
    above_start = {}

    def lower(records, asked=rule.lower_than_untrained):
        if records.name not in above_start:
            above_start[records.name] = asked(records)
        return above_start[records.name]

    monkeypatch.setattr(rule, "lower_than_untrained", lower)
    return rule.judge_claim


@pytest.fixture
def quick_bootstrap(monkeypatch):
    monkeypatch.setattr(statistics.resampling, "RESAMPLES", 100)


def test_every_claim_that_is_judged_by_records_has_a_lever():
    assert set(LEVERS) == {claim.id for claim in claims.CLAIMS if claim.needs and claim.measure}


def test_a_claim_is_judged_again_by_other_records_alone(base):
    claim, judge = BY_ID[next(iter(LEVERS))], rule.judge_claim
    with records.shared():
        first = judge(claim, base)
        assert judge(claim, base | {"another": None}) is first
        assert judge(claim, base | {need: replace(base[need]) for need in claim.needs}) is not first
    assert judge(claim, base) is not first


@loop("name", LEVERS)
def test_claim_gives_every_verdict(name, base, judge, quick_bootstrap):
    claim, (lever, true, false) = BY_ID[name], LEVERS[name]
    holds = judge(claim, lever(base, true))
    assert holds.verdict == REPRODUCED, holds
    for amount in reversed(false):
        judged = judge(claim, lever(base, amount))
        assert judged.verdict == (INCONCLUSIVE if claim.at_most else NOT_REPRODUCED), judged
        assert claim.region.excludes(judged.estimate.low, judged.estimate.high)
    ends = {true: holds.estimate.value, false[0]: judged.estimate.value}
    judged = at_the_edge(judge, claim, base, lever, ends)
    assert judged.verdict == INCONCLUSIVE, judged
    assert "crosses the limit" in judged.why
    assert judge(claim, {**base, claim.needs[-1]: None}).verdict == NOT_RUN


def at_the_edge(judge, claim, found, lever, ends):
    """Judged at the first amount at which the interval crosses the limit of the claim.

    ends: of two amounts, one that makes the sentence true and one that makes it false, the value. The first amount is
    where a straight line between them meets the limit; from there on it halves.
    """
    (true, holding), (false, value) = ends.items()
    limit = claim.region.low if value < claim.region.low else claim.region.high
    amount = true + (false - true) * (limit - holding) / (value - holding)
    for _ in range(12):
        judged = judge(claim, lever(found, amount))
        if judged.rule == "crosses":
            break
        held = claim.region.holds(judged.estimate.value, judged.estimate.value)
        true, false = (amount, false) if held else (true, amount)
        amount = (true + false) / 2
    return judged


@loop("name", LEVERS)
def test_claim_is_not_run_where_its_rows_are_missing(name, base):
    claim = BY_ID[name]
    for need in claim.needs:
        empty = replace(
            base[need],
            **{frame: getattr(base[need], frame).iloc[:0] for frame in ("scores", "curves", "arrays", "reruns")},
        )
        if name == "musgrave-tuning":
            empty = replace(empty, trials=empty.trials.iloc[:0])
        judged = rule.judge_claim(claim, {**base, need: empty})
        assert judged.verdict == NOT_RUN, (need, judged)
        assert judged.why


def test_a_retracted_claim_has_no_verdict(base):
    retracted = [claim for claim in claims.CLAIMS if claim.retracted]
    assert len(retracted) == 27
    for claim in retracted:
        judged = rule.judge_claim(claim, base)
        assert judged == rule.Judgement(RETRACTED, claim.retracted, rule="retracted")
        assert len(claim.retracted) > 40
    with pytest.raises(ValueError, match="neither a measure nor a reason"):
        replace(retracted[0], retracted="")


def test_rows_below_their_start_decide_nothing(base, monkeypatch):
    monkeypatch.setattr(starts, "by_dimension", lambda main: pd.Series(dtype=float))
    name = "roth-leaders"
    lever, true, _ = LEVERS[name]
    found = lever(base, true)
    assert rule.judge_claim(BY_ID[name], found).verdict == REPRODUCED
    trunk = {"method": PRETRAINED, "row": PRETRAINED, "rerun": 0, "setting": "separated", "metric": R1}
    for height, verdict in ((0.5, REPRODUCED), (0.65, INCONCLUSIVE)):  # the two leaders stand at 0.7, the others at 0.6
        scores = pd.concat([found["roth2020"].scores, pd.DataFrame([trunk | {"value": height}])], ignore_index=True)
        judged = rule.judge_claim(BY_ID[name], found | {"roth2020": replace(found["roth2020"], scores=scores)})
        assert judged.verdict == verdict
    assert judged.why == f"{rule.BELOW} (12 of 14)"  # of the trunk, since no narrower start was measured
    records = replace(found["roth2020"], scores=scores)
    two = rule.lower_than_untrained(records).query("row in ['margin_12', 'angular']")
    assert rule._counted(two) == (1, 1, 2)
    begun = pd.Series([0.55], pd.MultiIndex.from_tuples([("angular", "separated")], names=["method", "setting"]))
    monkeypatch.setattr(starts, "of_rows", lambda _: begun)
    counted = rule._counted(rule.lower_than_untrained(replace(records)).query("row in ['margin_12', 'angular']"))
    assert counted == (0, 1, 1)  # between its own start and the trunk
    assert rule.judge(above(0), Estimate(0.2, 0.1, 0.3, 5), True, (1, 2)).verdict == REPRODUCED
    assert rule.judge(above(0), Estimate(0.2, 0.1, 0.3, 5), True, (2, 3)).verdict == INCONCLUSIVE


@pytest.mark.parametrize(("row", "verdict"), [("angular", INCONCLUSIVE), ("margin_06", REPRODUCED)])
def test_a_row_below_its_start_that_makes_a_range_decides_nothing(base, monkeypatch, row, verdict):
    scores = base["roth2020"].scores.copy()
    scores.loc[(scores["method"] == "angular") & (scores["metric"] == R1), "value"] -= 0.05  # the lowest, and no other
    found = base | {"roth2020": replace(base["roth2020"], scores=scores)}
    begun = pd.Series([0.65], pd.MultiIndex.from_tuples([(row, "separated")], names=["method", "setting"]))
    others = pd.Series(0.5, pd.MultiIndex.from_product([OBJECTIVES, ["separated"]]))
    monkeypatch.setattr(starts, "of_rows", lambda _: begun.combine_first(others.rename_axis(["method", "setting"])))
    judged = rule.judge_claim(BY_ID["roth-saturation"], found)
    assert judged.verdict == verdict
    assert (judged.why == rule.END_BELOW) == (verdict == INCONCLUSIVE)


def test_a_trend_that_no_score_could_break_decides_nothing():
    for frame, verdict in ((table_of_years(0.99), INCONCLUSIVE), (table_of_years(0.6), REPRODUCED)):
        estimate = named.slope_since(frame)
        assert rule.judge(within(0.005), estimate, full=True).verdict == verdict


def table_of_years(score):
    """All methods alike, but for a little noise."""
    scores = score + np.random.default_rng(0).normal(0, 0.001, len(MAIN))
    return pd.DataFrame({"method": MAIN, "setting": "concatenated", "metric": R1, "mean": scores})


def test_rows_of_claims_are_rows_of_their_studies(base):
    for claim in claims.CLAIMS:
        known = {row for need in claim.needs for row in base[need].scores["row"]}
        assert set(claim.rows) <= known, claim.id


def test_one_random_class_order_decides_nothing(base):
    name = "oi-default-order-map"
    lever, true, _ = LEVERS[name]
    found = lever(base, true)
    judged = rule.judge_claim(BY_ID[name], found)
    assert (judged.verdict, judged.estimate.n) == (REPRODUCED, 10)
    judged = rule.judge_claim(BY_ID[name], {need: found[need] for need in BY_ID[name].needs})
    assert (judged.verdict, judged.estimate.n) == (INCONCLUSIVE, 1)
    assert "random class orders" in judged.why


def searched(spread, repetitions=3, reruns=3):
    """`measures.wide` of three methods whose searches spread this much around 0.5, their seeds by 0.001."""
    rng = np.random.default_rng(4)
    index = pd.MultiIndex.from_product([range(repetitions), range(reruns)], names=["repetition", "rerun"])
    search = np.repeat(rng.normal(0, spread, (repetitions, 3)), reruns, axis=0)
    return pd.DataFrame(0.5 + search + rng.normal(0, 0.001, (len(index), 3)), index=index, columns=["a", "b", "c"])


def test_intervals_hold_the_search_where_it_is_repeated():
    table = searched(0.02)
    found = measures.contrast_of_rows(table, {"a": 1, "b": -1})
    assert (found.n, found.units) == (3, "repetitions")
    assert not found.seeds_only
    once = measures.contrast_of_rows(table.loc[[0]], {"a": 1, "b": -1})
    assert (once.n, once.units) == (3, "reruns")
    assert once.seeds_only
    assert found.half > 5 * once.half

    def relative(table, over, under):
        return statistics.relative(table.mean(), over, under, partial(measures.contrast_of_rows, table))

    for seeds in (relative(table.loc[[0]], ["a"], ["b", "c"]), measures.range_of_means(table.loc[[0]])):
        assert seeds.seeds_only
    assert relative(table, ["a"], ["b"]).half == pytest.approx(found.half / table["b"].mean(), rel=0.05)
    spread = measures.range_of_means(table)
    assert spread.n == 3
    assert spread.value == pytest.approx(np.ptp(table.mean()))
    assert spread.high - spread.value > 5 * (
        measures.range_of_means(table.loc[[0]]).high - measures.range_of_means(table.loc[[0]]).value
    )
    pairs = measures.range_of_means(table, np.array([[0, 1], [1, 2]]))  # of the means of two groups
    assert pairs.value == pytest.approx(abs(table["a"].mean() - table["c"].mean()) / 2)


def test_one_search_each_says_nothing_of_two_that_share_none(base):
    lever, true, _ = LEVERS["musgrave-one-function"]
    claim = BY_ID["musgrave-one-function"]
    once = lift("main", "normalized_softmax", "map_at_r")(base, true)
    assert rule.judge_claim(claim, lever(base, true)).verdict == REPRODUCED
    judged = rule.judge_claim(claim, once)
    assert (judged.verdict, judged.why) == (INCONCLUSIVE, "too few searches (1 of 3)")


def test_pairs_of_reruns_are_no_pairs():
    """Shuffling the reruns of one row does not change its difference from another."""
    table = searched(0.0, repetitions=1, reruns=6)
    shuffled = table.assign(a=table["a"].to_numpy()[::-1])
    one, other = (measures.contrast_of_rows(each, {"a": 1, "b": -1}) for each in (table, shuffled))
    assert (one.value, one.half) == pytest.approx((other.value, other.half))


def test_best_and_worst_are_not_chosen_on_the_unit_where_they_are_compared():
    rng, leads, lifted = np.random.default_rng(0), [], []
    for _ in range(40):
        noise = pd.DataFrame(rng.normal(0, 1, (5, 5)))
        leads += measures.held_out(noise)  # by the mean of all five units 1, by the unit itself 2.3
        lifted += measures.held_out(noise.assign(x=9.0))
    assert abs(np.mean(leads)) < 0.5
    assert np.mean(lifted) == pytest.approx(9, abs=0.4)


def test_a_method_that_is_merely_not_first_does_not_fall_behind_in_retrieval(base):
    claim = BY_ID["fehervari-clustering-recall"]
    low = lift("fehervari2019", "structured_clustering")(base, -0.02)  # in R@1 and in NMI alike
    middling = lift("fehervari2019", "proxy_softmax", setting=["separated", "separated_binary"])(low, 0.02)
    assert abs(rule.judge_claim(claim, middling).estimate.value) < 3
    apart = lift("fehervari2019", "structured_clustering", "nmi")(middling, 0.02)
    assert rule.judge_claim(claim, apart).estimate.value < rule.judge_claim(claim, middling).estimate.value - 2


def test_the_objective_of_weight_decay_is_not_chosen_on_the_rerun_that_scores_it():
    rows = sweep_rows(SIX, ["decay0", "decay4e-05", "decay0.004"])
    alike, falls = made("roth2020/decays", rows, AGGREGATED, reruns=3), []
    for seed in range(8):
        noise = np.random.default_rng(seed).normal(0, 0.02, len(alike.scores))
        falls.append(named.largest_fall(replace(alike, scores=alike.scores.assign(value=0.6 + noise))).value)
    own_rows = {"roth2020/decays": made("roth2020/decays", rows, AGGREGATED)}
    lifted = lift("roth2020/decays", "histogram", value="decay0")(own_rows, 0.2)
    assert named.largest_fall(lifted["roth2020/decays"]).value == pytest.approx(1 - 0.6 / 0.8, abs=0.02)
    assert abs(np.mean(falls)) < 0.01  # by the rerun itself 0.04


def test_smallest_slope_of_interest_is_a_tenth_of_what_papers_claim():
    proposed = published.claims().query("primary and role == 'proposed'")
    for _, rows in proposed.groupby("dataset"):
        claimed = statistics.slope(rows["year"], rows["r1"]).value
        assert 0.05 < BY_ID["musgrave-flat-trend"].region.high / claimed < 0.2


@pytest.mark.parametrize(
    "name", ["roth-leaders", "fehervari-margin-like-npairs", "oi-jsd-shows-overfitting", "zhai-bits-match-floats"]
)
def test_two_reruns_decide_nothing(name, base):
    claim, (lever, true, _) = BY_ID[name], LEVERS[name]
    found = lever(base, true)
    fewer = {
        need: replace(
            each,
            scores=each.scores[each.scores["rerun"] < 2],
            curves=each.curves[each.curves["number"] < 2],
        )
        for need, each in found.items()
    }
    judged = rule.judge_claim(claim, fewer)
    assert judged.verdict == INCONCLUSIVE
    assert judged.estimate.n == 2


def test_a_diverged_rerun_is_left_out(base):
    scores = base["fehervari2019"].scores
    gone = (scores["method"] == "margin") & (scores["rerun"] == 1)
    found = {**base, "fehervari2019": replace(base["fehervari2019"], scores=scores[~gone])}
    assert rule.judge_claim(BY_ID["fehervari-margin-like-npairs"], found).estimate.n == RERUNS - 1


def test_unfinished_records_decide_nothing(base):
    exported = base["zhai2019"]
    here = replace(exported, meta={name: fact for name, fact in exported.meta.items() if name != "complete"})
    for each, meta in ((exported, {}), (here, {"settings": {"lmcl": {}}})):
        assert rule.is_full(replace(each, meta=each.meta | meta))
    for each, meta in (
        (exported, {"complete": False}),
        (exported, {"budget": {"name": "quick"}}),
        (here, {"settings": {"lmcl": {}, "another": {}}}),
    ):
        assert not rule.is_full(replace(each, meta=each.meta | meta))


def test_gain_that_cannot_be_exceeded_is_inconclusive(base):
    found = lift("main", metric=R1)(base, 0.35)  # contrastive at 95 %: no method can be 10 % better
    judged = rule.judge_claim(BY_ID["musgrave-gain-over-contrastive"], found)
    assert judged.verdict == INCONCLUSIVE
    assert judged.why == "on this data it cannot fail"


@pytest.mark.parametrize(
    "claim", [claim for claim in claims.CLAIMS if claim.measure and not claim.needs], ids=lambda claim: claim.id
)
def test_claims_on_the_spot(claim):
    judged = rule.judge_claim(claim, {})
    assert judged.verdict in (REPRODUCED, INCONCLUSIVE)
    assert judged.estimate.n >= 5
    value = judged.estimate.value
    if claim.id in ("musgrave-nmi-formula", "musgrave-nmi-random-trunk", "musgrave-p1-hides", "musgrave-identity"):
        assert judged.verdict == REPRODUCED
    if claim.id == "musgrave-identity":
        assert abs(value) < 1e-6
    if claim.id == "musgrave-recycled":
        assert (value * judged.estimate.n, judged.estimate.n) == (pytest.approx(6), 11)  # Song et al. measured first
    if claim.id == "musgrave-claimed-contrastive":
        assert value == pytest.approx(1.25, abs=0.01)


def test_identity_can_fail(monkeypatch):
    create = named.losses.create

    def wrong(name, **settings):
        return create(
            name, **settings | ({"temperature": settings["temperature"] * 2} if "temperature" in settings else {})
        )

    monkeypatch.setattr(named.losses, "create", wrong)
    judged = rule.judge(within(1e-5), named.one_function.__wrapped__(), full=True)
    assert judged.verdict == NOT_REPRODUCED


def test_a_claim_with_an_unknown_key_or_a_wrong_type_is_refused():
    row = {"id": "x", "paper": "oi", "claim": "X.", "source": "", "link": "oi-t1", "retracted": "why"}
    Claim(**row)
    for wrong in ({"regoin": {}}, {"needs": "main"}, {"origin": "theirs"}, {"published": {"CUB200": "high"}}):
        with pytest.raises(ValueError, match="validation error"):
            Claim(**row, **wrong)
    assert set(INTERVALS.values()) == {each.interval for each in claims.CLAIMS if each.interval}


def test_claims_are_well_formed():
    assert len(claims.CLAIMS) == len(BY_ID) >= 30
    assert {claim.paper for claim in claims.CLAIMS} == set(SOURCES)
    for claim in claims.CLAIMS:
        assert claim.claim.endswith("."), claim.id
        assert len(claim.quote.split()) <= 12, claim.id
        assert claim.origin in ("paper", "ours"), claim.id
        assert claim.quote or claim.origin == "ours", f"{claim.id}: a sentence of a paper without its words"
        if not claim.measure:
            continue
        limits = [limit for limit in (claim.region.low, claim.region.high) if math.isfinite(limit)]
        assert limits, claim.id
        assert claim.rationale or 0 in limits or claim.id in STATED, f"{claim.id}: a limit without a reason"


@loop("claim", claims.CLAIMS)
def test_a_claim_leads_to_something_that_its_chapter_shows(claim):
    chapter = (NOTEBOOKS / f"{EXHIBITS[claim.link].chapter}.ipynb").read_text()
    ids = re.findall(r'\\"([\w{}-]+)\\"|\(([\w-]+)\)=', chapter)  # of tables and figures, and of sections
    names = [re.sub(r"\{[^}]*\}", "[a-z0-9]+", shown or section) for shown, section in ids]
    assert any(re.fullmatch(name, claim.link) for name in names)


STATED = (  # the sentence itself has the number
    "musgrave-recycled",
)


def of_musgrave(statistic):
    frame = published.musgrave_results().set_index(["dataset", "setting", "metric", "method"])["mean"].sort_index()
    return {name: statistic(part.droplevel(0)) for name, part in frame.groupby(level=0, sort=False)}


def trained(means, metric, setting="concatenated"):
    return means[setting, metric].drop(PRETRAINED)


def of_roth(statistic, metric=R1):
    frame = published.roth_results()
    means = frame[(frame["metric"] == metric) & (frame["method"] != PRETRAINED)].set_index(["dataset", "method"])
    return {name: statistic(part.droplevel(0)) for name, part in means["mean"].groupby(level=0, sort=False)}


def of_fehervari(statistic, metric=R1):
    frame = published.fehervari_results()
    frame = frame[(frame["metric"] == metric) & ~frame["doubtful"] & (frame["method"] != "dreml")]
    return {
        f"{dataset} ({titles.TRUNKS[trunk]})": statistic(part.set_index("method")["value"])
        for (dataset, trunk), part in frame.groupby(["dataset", "trunk"], sort=False)
    }


def above_others(row, without=()):
    return lambda values: values.get(row, np.nan) - values.drop([row, *without], errors="ignore").max()


def relative_range(values):
    return np.ptp(values) / np.mean(values)


def of_oi(metric):
    frame = published.oi_results()
    wide = frame[frame["metric"] == metric].pivot(index="dataset", columns="class_order", values="value")
    return dict(wide["default"] - wide["random"])


OF_THE_PAPERS = {
    "musgrave-similar": lambda: of_musgrave(lambda means: relative_range(trained(means, "map_at_r"))),
    "musgrave-one-function": lambda: of_musgrave(
        lambda means: trained(means, "map_at_r")["normalized_softmax"] - trained(means, "map_at_r")["proxy_nca"]
    ),
    "musgrave-same-order": lambda: of_musgrave(
        lambda means: trained(means, "map_at_r").corr(trained(means, "map_at_r", "separated"), method="spearman")
    ),
    "musgrave-training-helps": lambda: of_musgrave(
        lambda means: (trained(means, R1) - means["concatenated", R1, PRETRAINED]).mean()
    ),
    "musgrave-gain-in-map": lambda: of_musgrave(
        lambda means: (
            trained(means, "map_at_r").drop(list(tables.CLASSICS)).mean()
            / means["concatenated", "map_at_r"][list(tables.CLASSICS)].mean()
            - 1
        )
    ),
    **{
        f"musgrave-flat-trend{ending}": lambda since=since: {
            name: named.slope_since(frame, since).value
            for name, frame in published.musgrave_results().groupby("dataset")
        }
        for ending, since in (("", 0), ("-without-2006", 2007))
    },
    **{
        f"musgrave-gain-over-{baseline}": lambda baseline=baseline: {
            name: tables.improvement(frame, baseline)["concatenated"]
            for name, frame in published.musgrave_results().groupby("dataset")
        }
        for baseline in tables.CLASSICS
    },
    "roth-saturation": lambda: of_roth(lambda means: relative_range(means.reindex(OBJECTIVES).dropna())),
    "roth-distance-mining": lambda: of_roth(
        lambda means: above_others("triplet_distance")(means[list(BY_ID["roth-distance-mining"].rows)])
    ),
    "roth-regularisation": lambda: of_roth(
        lambda means: np.mean([means[one] - means[two] for one, two in BY_ID["roth-regularisation"].measure["pairs"]])
    ),
    "fehervari-clustering-nmi": lambda: of_fehervari(
        above_others("structured_clustering", ["proxy_softmax"]), metric="nmi"
    ),
    "fehervari-margin-like-npairs": lambda: {
        where: value
        for where, value in of_fehervari(
            lambda values: values.get("margin", np.nan) - values.get("n_pairs", np.nan)
        ).items()
        if not where.startswith("SOP")  # the exception that the sentence names
    },
    "zhai-bits-match-floats": lambda: {"CUB200": -0.02, "Cars196": -0.006, "In-Shop": -0.006, "SOP": -0.013},
    "oi-default-order-recall": lambda: of_oi(R1),
    "oi-default-order-map": lambda: of_oi("map_at_r"),
    "oi-default-order-jsd": lambda: of_oi("jsd"),
}
"""What the claims have as `published`, from the transcribed tables."""


@loop("name", OF_THE_PAPERS)
def test_numbers_of_the_papers(name):
    expected = {where: value for where, value in OF_THE_PAPERS[name]().items() if not math.isnan(value)}
    assert dict(BY_ID[name].published) == pytest.approx(expected, abs=1e-6)


def test_a_retracted_claim_keeps_the_numbers_of_its_paper():
    assert verdicts.in_paper(BY_ID["zhai-balanced"]) == "CUB200 +1.80"
    assert verdicts.in_paper(BY_ID["fehervari-dims"]) == ""


# --- what is printed


def two_studies(base, monkeypatch):
    """Two main studies: one with all its experiments, one with its methods table alone, at the quick budget."""
    full = replace(fake_records(study="fake-full"), scores=base["main"].scores)
    full.meta["budget"]["name"] = "full"
    monkeypatch.setattr(
        experiments, "load_experiment", lambda main, name: base.get(name) if main == "fake-full" else None
    )
    monkeypatch.setattr(records, "find", lambda name: base.get(name.partition("/")[2]))
    return [full, fake_records(study="fake-quick")]


@pytest.fixture
def edition(base, monkeypatch):
    return two_studies(base, monkeypatch)


@pytest.fixture(scope="module")
def judged(base):
    """The two studies, judged."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics.resampling, "RESAMPLES", 100)
        patch.setattr(starts, "by_dimension", lambda main: pd.Series(BEGUN))
        return claims.judge_all(two_studies(base, patch))


def test_numbers_have_a_row_a_claim(judged):
    found = claims.numbers(judged).loc["fake-full"].set_index("id")
    assert list(found.index) == [claim.id for claim in claims.CLAIMS if claim.needs]
    assert set(found["verdict"]) <= set(claims.VERDICTS)
    row = found.loc["fehervari-margin-like-npairs"]
    assert row["low"] < row["ours"] < row["high"]
    assert row["needs"] == "fehervari2019"
    assert row["interval"] == "Welch's t, seeds only"
    quick = claims.numbers(judged).loc["fake-quick"].set_index("id")
    unnamed = [claim.id for claim in claims.CLAIMS if claim.needs == ("main",) and not claim.named]
    assert (quick.loc[unnamed, "verdict"] == INCONCLUSIVE).all()
    assert (quick.loc[quick["needs"] == "zhai2019", "verdict"] == NOT_RUN).all()
    assert (quick.loc[quick["needs"] == "zhai2019", "why"] == "no records of zhai2019").all()


def test_counts_by_paper():
    needing = [claim.id for claim in claims.CLAIMS if claim.needs]

    def all_but(verdict, *others):
        return {name: rule.Judgement(NOT_REPRODUCED if name in others else verdict) for name in needing}

    edition = {
        "a": all_but(REPRODUCED, "musgrave-similar", "oi-default-order-jsd"),
        "b": all_but(NOT_RUN, "musgrave-similar"),
        claims.WITHOUT_RECORDS: {claim.id: rule.judge_claim(claim, {}) for claim in claims.CLAIMS if not claim.needs},
    }
    by_paper = claims.by_paper(edition)
    assert by_paper["claims"].astype(int).sum() == len(claims.CLAIMS)
    n = sum(bool(claim.needs) for claim in verdicts.of_section("musgrave"))
    assert by_paper.loc["Musgrave et al. 2020", "a"] == f"{n - 1} reproduced, 1 not reproduced"
    n = sum(bool(claim.needs) for claim in verdicts.of_section("roth"))
    assert by_paper.loc["Roth et al. 2020", "b"] == f"{n} not run"
    assert by_paper.loc["Roth et al. 2020", claims.WITHOUT_RECORDS] == "3 retracted"
    assert list(by_paper.index)[-1].startswith("Ours")


def test_a_number_without_an_interval_and_of_one_unit_says_so():
    claim = next(claim for claim in claims.CLAIMS if claim.id == "musgrave-similar")
    found = Estimate(0.5, float("nan"), float("nan"), 1, "reruns")
    cell = page._cell(claim, rule.Judgement(INCONCLUSIVE, "too few", found))
    assert cell.endswith(", no interval, n = 1 rerun; too few")


def test_tables_stand_side_by_side(judged):
    edition = judged
    assert claims.judge_all(edition) is edition
    cells, marks = claims.claims_overview(edition)
    assert cells.index.is_unique
    assert len(cells) == len(claims.CLAIMS)
    assert list(cells.columns) == ["fake-full", "fake-quick", claims.WITHOUT_RECORDS, "paper", "see"]
    assert cells.shape == marks.shape
    cells = cells.map(lambda cell: cell.removesuffix(f" {labels.BELOW}"))
    assert ((cells["fake-full"] == REPRODUCED) == (marks["fake-full"] == "best")).all()
    assert ((cells["fake-full"] == NOT_REPRODUCED) == (marks["fake-full"] == "tie")).all()
    assert (marks["fake-quick"][cells["fake-quick"] == NOT_RUN] == "").all()
    quick = cells["fake-quick"][cells["fake-quick"].str.startswith(INCONCLUSIVE)]
    assert quick.str.endswith("not the full budget, or not finished").all()
    assert ((cells["fake-full"] == "–") == (cells[claims.WITHOUT_RECORDS] != "–")).all()
    counted = claims.tally(edition)
    assert counted.loc[["fake-full", "fake-quick"]].sum(axis=1).nunique() == 1
    assert counted.loc[["fake-full", claims.WITHOUT_RECORDS]].sum().sum() == len(claims.CLAIMS)
    assert counted.loc["fake-full", REPRODUCED] == (cells["fake-full"] == REPRODUCED).sum()
    parts = {section: claims.details(edition, section)[0] for section in claims.SECTIONS}
    assert sum(map(len, parts.values())) == len(claims.CLAIMS)
    assert parts["musgrave"]["fake-full"].str.contains(r"n = \d+ reruns, seeds only").any()
    assert parts["musgrave"].index.str.endswith("(exploratory)").sum() == 7
    assert parts["musgrave"]["said in"].str.contains("arxiv.org").all()
    assert parts["ours"]["said in"].str.startswith("ours").all()
    (cell,) = parts["roth"][claims.WITHOUT_RECORDS][parts["roth"]["decided by"].str.endswith("(roth-larger-images)")]
    assert cell.startswith("retracted; a frozen trunk")
    held = claims.rules(edition)[["fake-full", claims.WITHOUT_RECORDS]].replace("–", "0").astype(int)
    open_or_withdrawn = counted.loc[held.columns, [INCONCLUSIVE, RETRACTED]]
    assert held.sum().to_dict() == open_or_withdrawn.sum(axis=1).to_dict()
    needing = sum(bool(claim.needs) for claim in claims.CLAIMS)
    assert len(claims.numbers(edition)) == needing + len(claims.CLAIMS)
    assert set(claims.numbers(edition, "oi")["paper"]) == {"oi"}
    with pytest.raises(UsageError, match="unknown section of claims"):
        claims.numbers(edition, "nonsense")


def test_claims_read_records_of_the_true_shape(tmp_path, monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(tmp_path))
    monkeypatch.delenv("DMLRC_RUNS", raising=False)
    write_fake_study(study="glyphs-quick", trials=3, reruns=2)
    write_fake_experiments("glyphs-quick")
    for paper, absent in (
        ("musgrave", []),
        ("ours", ["musgrave-trunk-over-loss"]),  # characters have no trunk with ImageNet weights
        ("roth", ["roth-weight-decay", "roth-dims-128"]),  # of one rerun none is left to choose rows by
        ("fehervari", []),
        ("zhai", []),
        ("oi", []),
        ("berton", []),
    ):
        found = claims.numbers([records.load("glyphs-quick")], paper).loc["glyphs-quick"].set_index("id")
        assert list(found.index[found["verdict"] == NOT_RUN]) == absent
        computed = found[~found.index.isin(absent) & (found["verdict"] != RETRACTED)]
        assert (computed["verdict"] == INCONCLUSIVE).all()
        assert computed["ours"].notna().all()


def test_claims_lead_to_exhibits_and_decide_those_of_their_paper():
    links = {each.link for each in claims.CLAIMS}
    assert {id for id, exhibit in EXHIBITS.items() if exhibit.paper == "ours"} <= links <= set(EXHIBITS)
    for each in claims.CLAIMS:
        assert all(EXHIBITS[id].paper == each.paper for id in each.decides), each.id
        assert bool(each.decides) <= (each.origin == "paper" and not each.retracted), each.id


def test_a_number_is_as_far_inside_its_region_as_its_interval_says():
    def inside(region, value, low, high):
        return figures.margin_in_region(region, Estimate(value, low, high, 9))

    assert inside(above(0), 2.0, 1.0, 3.0) == pytest.approx(2)
    assert inside(above(0), 1.0, 0.0, 3.0) == pytest.approx(1)  # the interval touches the edge
    assert inside(below(1), 2.0, 1.0, 3.0) == pytest.approx(-1)
    assert inside(within(1), 0.5, 0.0, 1.5) == pytest.approx(0.5)
    assert np.isnan(inside(above(0), 1.0, np.nan, np.nan))


@loop("seed", range(50))
def test_the_figure_says_what_the_rule_says(seed):
    rng = np.random.default_rng(seed)
    low, value, high = np.sort(rng.normal(0, 2, 3))
    region = [above(0.5), below(-0.3), within(1.0)][seed % 3]
    found = Estimate(value, low, high, 9, "rows")
    place = figures.margin_in_region(region, found)
    verdict = rule.judge(region, found, full=True).verdict
    assert (verdict == rule.REPRODUCED) == (place > 1)
    assert (verdict == rule.NOT_REPRODUCED) == (place < -1)


# --- the report card


def test_the_card_has_every_exhibit_once():
    ids = [id for id, each in EXHIBITS.items() if each.paper != "ours"]
    counts = {"musgrave": (6, 5), "roth": (2, 7), "fehervari": (4, 2), "zhai": (6, 4), "oi": (1, 4)}
    expected = {
        f"{paper}-{kind}{number}"
        for paper, both in counts.items()
        for kind, count in zip("tf", both, strict=True)
        for number in range(1, count + 1)
    }
    assert sorted(ids) == sorted(expected | {"musgrave-search"})


@loop("id", [id for id, each in EXHIBITS.items() if each.paper != "ours"])
def test_a_row_of_the_card_leads_to_its_exhibit(id):
    chapter = (NOTEBOOKS / f"{EXHIBITS[id].chapter}.ipynb").read_text()
    names = [re.sub(r"\{[^}]*\}", "[a-z0-9]+", name) for name in re.findall(r'\\"([\w{}-]+)\\"', chapter)]
    assert any(re.fullmatch(name, id) for name in names)


def test_claims_belong_to_the_exhibits_that_they_name():
    decided = {id: {each.id for each in claims.CLAIMS if id in each.decides} for id in EXHIBITS}
    assert decided["oi-t1"] == {"oi-default-order-recall", "oi-default-order-map", "oi-default-order-jsd"}
    assert decided["musgrave-search"] == {"musgrave-tuning"}
    assert decided["zhai-f4"] == set()  # its one claim is retracted
    assert decided["musgrave-t4"] == {"musgrave-gain-in-map"}  # and not "musgrave-training-helps", which is ours


def test_the_card_counts_verdicts(edition, quick_bootstrap, monkeypatch):
    monkeypatch.setattr(card, "_orders", lambda edition, of: {"musgrave-t4": "x +0.50"})
    monkeypatch.setattr(card, "toy_change", lambda: Estimate(0.1, 0.05, 0.15, 5))
    needing = [claim for claim in claims.CLAIMS if claim.needs]
    made = {"fake-full": {claim.id: rule.Judgement(REPRODUCED) for claim in needing}}
    made["fake-full"]["roth-saturation"] = rule.Judgement(NOT_REPRODUCED)
    found = card.report_card(edition, made)
    assert found.loc["oi-t1", ["outcome", "reproduced", "not_reproduced"]].tolist() == ["agrees", 3, 0]
    assert found.loc["roth-t2", "outcome"] == "partly"
    assert found.loc["roth-f6", "outcome"] == "agrees"
    assert set(found.loc[["zhai-t2", "zhai-t3"], "outcome"]) == {"not run"}
    assert found.loc["zhai-f1", "outcome"] == "no result"
    shown = {}
    monkeypatch.setattr(card.publish, "table", lambda name, cells, *_, **given: shown.update({name: (cells, given)}))
    card.publish_card("whole", found, "All.")
    card.publish_card("musgrave", card.report_card(edition, made, of="musgrave"), "One paper's.")
    (cells, given), (own, _) = shown.values()
    assert cells.columns[0] == "ours"  # the answer stands where a phone shows it
    assert cells.loc["musgrave-t4", "by how much"].endswith("reproduced; rank correlation of the order: x +0.50")
    assert given["links"]["musgrave-t4"] == "04_which_loss_wins.html#musgrave-t4"
    pd.testing.assert_frame_equal(own, cells[cells["paper"] == "Musgrave et al. 2020"].drop(columns="paper"))
