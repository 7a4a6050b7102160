"""What texts of the library's TOML files say of settings, of limits, and of what was measured: `checks` of them.

Each function gives FOLDER.field -> what stands there -> whether that holds.
"""

import inspect
from collections import Counter

import numpy as np
import pandas as pd
import torch
from scipy import stats

from dmlrc import records, search, studies
from dmlrc.data import batches, registry, splits
from dmlrc.losses import structured_clustering
from dmlrc.methods import LOSS_WEIGHTS_LR, Int, Method
from dmlrc.metrics import clustering
from dmlrc.papers import fehervari2019, musgrave2020, oi2021, roth2020, zhai2019
from dmlrc.report import published, starts
from dmlrc.report.claims import CLAIMS, rule
from dmlrc.report.findings import metrics, page, training
from dmlrc.report.hypotheses import measures as hypotheses
from dmlrc.report.method import notes
from dmlrc.report.musgrave2020 import years
from dmlrc.report.significance import measures as significance
from dmlrc.report.variance import levers
from dmlrc.training import batch_layout

TABLES = ("cub200-2010-frozen", "cars196crops-frozen", "grocery-frozen")
RATE = LOSS_WEIGHTS_LR


def around(experiment):
    """The studies of an experiment around the published tables."""
    return [studies.get(f"{main}/{experiment}") for main in TABLES]


def by_name(methods):
    return {method.name: method for method in methods}


def layout(method):
    return method.classes_per_batch, method.images_per_class


def rates(methods):
    return {method.name: method.settings[RATE] for method in methods if RATE in method.settings}


def overlap(order):
    """The share of an order's test classes that stand in the first half of the data set's own order."""
    classes = registry.SOURCES[order.dataset].classes
    drawn = splits.ratio_4_1_5(np.arange(classes), order.class_order, order.seed)
    return np.mean(drawn.test < classes // 2)


def deviations():
    paper, sop, own = map(by_name, (musgrave2020.METHODS, musgrave2020.SOP_METHODS, fehervari2019.METHODS))
    roth, fehervari, zhai, oi = map(around, ("roth2020", "fehervari2019", "zhai2019", "oi2021"))
    runs = [study.protocol for study in fehervari]
    orders = [each for name in ("random", *(f"order-{n}" for n in range(2, 11))) for each in around(f"oi2021/{name}")]
    of_grocery, classes = (
        registry.SOURCES["grocery"].classes // 2,
        [registry.SOURCES[each.dataset].classes for each in oi],
    )
    wide = Method("a", "triplet", classes_per_batch=40, images_per_class=1)
    halved = batch_layout(wide, 39) == (20, 2) and batch_layout(wide, 40) == (40, 1)
    in_half = all(
        layout(each) == (layout(own[each.name])[0] // 2, own[each.name].images_per_class)
        for each in fehervari[0].methods
    )
    [steps] = {each.protocol.iterations_per_epoch * each.protocol.max_epochs for each in roth}
    begin = roth2020._START["weight_length"] / 128**0.5
    cars, on_sop = musgrave2020.VALIDATION["cars196"], musgrave2020.VALIDATION["sop"]
    seeds = records.load(TABLES[0]).runs.query("kind == 'rerun'")
    smoothed = inspect.signature(torch.optim.RMSprop).parameters["alpha"].default == 0.99
    sized = clustering.ITERATIONS == 20
    return {
        "deviations.why": {
            "One for all losses.": not any("weight_decay" in each.changes for each in fehervari[0].methods),
            "Half, with half the classes and the same images of each: half of Grocery Store has 40 classes.": (
                in_half and of_grocery == 40
            ),
            "Half of Grocery Store has 40 classes, and SPC-2 in a batch of 112 asks for 56.": (
                of_grocery == 40 and {layout(each) for each in roth2020.METHODS} == {(56, 2)}
            ),
            "All runs with RMSprop have PyTorch's default.": smoothed,
            "The γ of the loss itself stays 1, here and in the code.": own["structured_clustering"].settings["gamma"]
            == 1,
            "At the rate 0.1 a step of Adam can move one by half the margin": own["margin"].settings["margin"]
            == 2 * 0.1,
            "10⁻⁶ is a rate for fine-tuning BN-Inception.": (
                (musgrave2020.PROTOCOL.lr, musgrave2020.PROTOCOL.trunk) == (1e-6, "bn_inception")
            ),
            "10⁻⁴ is the later default of the paper's code.": musgrave2020.PROTOCOL.weight_decay == 1e-4,
            "0.9 is the later default of the paper's code": musgrave2020.PROTOCOL.momentum == 0.9,
            "characters are stored at 28 pixels": registry.CHARACTER.size == 28,
            "The paper's code validates CUB200 every 2, Cars196 every 5 and SOP every 20 epochs.": (
                (musgrave2020.PROTOCOL.eval_every, cars["eval_every"], on_sop["eval_every"]) == (2, 5, 20)
            ),
            "The paper's code waits 9 (CUB200), 14 (Cars196) or 39 (SOP) epochs.": (
                (musgrave2020.PROTOCOL.patience, cars["patience"], on_sop["patience"]) == (9, 14, 39)
            ),
            "NTXent has one range on all data sets.": paper["ntxent"].space == sop["ntxent"].space,
            "Classification losses ask for 32 classes.": (
                {each.classes_per_batch for each in paper.values() if each.kind == "classification"} == {32}
            ),
            "and higher than the paper's": all(each.protocol.lr > oi2021.PROTOCOL.lr for each in oi),
            "about half of the test classes of each random order": all(0.4 < overlap(each) < 0.6 for each in orders),
            "sweeps have fewer than the table": (
                roth[0].budget.reruns
                > around("roth2020/dims")[0].budget.reruns
                == around("roth2020/decays")[0].budget.reruns
            ),
            "A batch of more classes than there are takes half of them with twice the images": halved,
            "The embedder's rate is higher here and its steps are fewer.": (
                all(each.protocol.lr > roth2020.PROTOCOL.lr for each in roth)
                and steps < 50 * roth2020.PROTOCOL.max_epochs
            ),
            "In 500 steps at 5·10⁻⁴ Adam can move a number by 0.25, five times its size at the start; at 10⁻⁵": (
                steps * 5e-4 == 0.25 and round(0.25 / begin) == 5 and round(steps * 1e-5 / begin, 1) == 0.1
            ),
            "Standard normal ones are 20 times as long with 128 dimensions (ArcFace, Softmax), or 8 times (Pnca).": (
                round(128**0.5 / roth2020._START["weight_length"]) == 20
                and by_name(roth2020.METHODS)["proxy_nca"].settings["proxy_std"] == 1 / 8
            ),
            "6,000 times more slowly where it is standard normal in 2048 dimensions": (
                round(2048 / zhai2019._START["weight_length"] ** 2, -3) == 6000
            ),
            "A thousandth of our classes would be less than one": max(classes) / 2 < 1000,
        },
        "deviations.ours": {
            "the same on every data set": len({str(sorted(by_name(each.methods).items())) for each in fehervari}) == 1,
            "the network's rate and weight decay are one for all losses, and constant": not any(
                each.lr_steps or each.lr_decay != "none" for each in runs
            )
            and not any({"lr", "weight_decay"} & {*each.changes} for each in fehervari[0].methods),
            "its squares are smoothed by 0.99": smoothed,
            "k-means from random points, one start, 20 iterations": sized,
            "its first 10 trials are random": search.TPE["n_startup_trials"] == 10,
            "the authors' widest there, but NTXent's temperature from 10⁻⁴": sop["ntxent"].space["temperature"].low
            == 1e-4,
            "none at all, for trunk, embedder and boundaries, in both rows of Margin": (
                [name for name, each in paper.items() if each.weight_decay == 0] == ["margin", "margin_per_class"]
            ),
            "number of bins searched as a whole number from 2 to 32": paper["fast_ap"].space["num_bins"] == Int(2, 32),
            "rerun n of every method starts from the same seed": (
                seeds.groupby(["repetition", "number", "fold"])["seed"].nunique().eq(1).all()
            ),
            "a batch of more classes than a fold trains on takes half of them with twice the images": halved,
            "the six of Fig. 3": len(roth2020.SAMPLED) == 6,
            "at 2048 dimensions alone": {each.protocol.embedding_dim for each in zhai} == {2048},
            "margin 0.35 and scale 64": by_name(zhai2019.METHODS)["lmcl"].settings.items()
            >= {"margin": 0.35, "scale": 64}.items(),
            "100, 50, 25 and 10 % of the classes": (
                [each.level_number for each in around("zhai2019/shares")[0].methods] == [1.0, 0.5, 0.25, 0.1]
            ),
        },
        "deviations.ours_if_given": {
            "the rate is 10⁻³ for ProxyNCA and ProxyTriplet, else the embedder's": (
                rates(own.values())
                == {"proxy_triplet": 1e-3, "proxy_nca": 1e-3, "margin": rates(own.values())["margin"]}
            ),
            "normal, scaled to a length of 0.58": round(zhai2019._START["weight_length"], 2) == 0.58,
        },
    }


LIMITS = {
    **dict.fromkeys(("a tenth, as for", "a tenth of the 100 % that the paper says claims exceed"), 0.1),
    **{"a fifth of the 50 % that the paper says claims exceed": 0.1, "a twentieth of the metric's range": 0.05},
    **{"half a point, about the mean half width": 0.005, "smallest slope of interest: half a point a year": 0.005},
    **{"one point, as for equal scores in the preregistration": significance.MARGIN, "ten points": 0.1},
    **{"more than half of the metric's range": 0.5, "within half a decade of 1, where the search ends": 0.5},
}
"""How a claim's rationale begins -> where its region ends."""


def ends(claim):
    return {abs(end) for end in (claim.region.low, claim.region.high)} - {np.inf}


def claims():
    known = {claim.id: claim for claim in CLAIMS}
    stated = {text: [each for each in CLAIMS if text in each.rationale] for text in LIMITS}
    halves = [each for each in CLAIMS if each.rationale.startswith("half of what the paper found")]
    worst = [each for each in CLAIMS if "worst of the paper's tables" in each.exploratory]
    printed = pd.concat(published.musgrave_tables().values()).query(
        "setting == 'concatenated' and metric == 'map_at_r'"
    )
    of_roth = published.roth_results().query(
        "dataset == 'CUB200' and group == 'objective' and metric == 'precision_at_1'"
    )
    rises = [slope.value for slope in years.claimed_slopes().values()]
    away = {
        method.name: (method.year - np.mean([each.year for each in musgrave2020.METHODS])) ** 2
        for method in musgrave2020.METHODS
    }
    old = [method.name for method in musgrave2020.METHODS if method.year == 2006]
    first, small, zeng = (
        around("fehervari2019")[0],
        around("zhai2019/losses-equal"),
        studies.get(f"{TABLES[1]}/variance"),
    )
    grid = (
        records.load(f"{TABLES[1]}/zhai2019/rates")
        .trials.set_index(["row", "level_number"])["value"]["norm_softmax"]
        .idxmax()
    )
    shared = around("zhai2019")[1].protocol.lr
    sizes = [
        len({each.images_per_class for each in study.methods if each.loss == loss})
        for study in studies.STUDIES.values()
        for loss in ("cosface", "arcface")
    ]
    of_batches = [study for name in ("roth2020/batches-equal", "fehervari2019/batches-equal") for study in around(name)]
    embedding = {each.name: each.changes.get("embedding_dim", first.protocol.embedding_dim) for each in first.methods}
    tenths = [round(registry.SOURCES[study.dataset].classes // 2 / 10) for study in around("zhai2019/shares")]
    layers = [starts.by_dimension(main) for main in TABLES]
    r1 = [
        records.load(study.name)
        .scores.query("setting == 'separated' and metric == 'precision_at_1' and method != 'pretrained'")
        .groupby("method")["value"]
        .mean()
        for study in around("fehervari2019")
    ]
    last = records.load("first-runs/grocery-frozen/fehervari2019").meta["settings"]
    return {
        "claims.rationale": {
            text: all(limit in ends(each) for each in stated[text]) and bool(stated[text])
            for text, limit in LIMITS.items()
        }
        | {
            "about a tenth of the rise that papers claim (Fig. 4 a)": all(0.07 < 0.005 / rise < 0.16 for rise in rises),
            "H3 asks for half of it": hypotheses.MAX_GAIN == 0.1 / 2,
            "about the mean half width of an interval in the paper's tables (0.44)": round(
                100 * printed["ci95"].mean(), 2
            )
            == 0.44,
            "well above the rounding of float32": 10 * np.finfo(np.float32).eps < 1e-5,
            "one point, the standard deviation over the objectives of Table 2 on CUB200": 0.0095
            < of_roth["mean"].std()
            < 0.0105,
            "half a point a doubling would be three points from 2 to 128 images": round(0.005 * np.log2(128 / 2), 3)
            == 0.03,
            "half of what the paper found, so that no effect at all does not count as reproduced": (
                [each.region.low for each in halves] == [each.published["up to"] / 2 for each in halves]
            ),
        },
        "claims.exploratory": {
            "the two points of 2006 were seen to carry four fifths of the leverage": (
                0.75 < sum(away[name] for name in old) / sum(away.values()) < 0.85 and len(old) == 2
            ),
            "which a quarter of all orders may pass": 0.2 < stats.norm.sf(stats.t.ppf(0.975, 9) / 10**0.5) < 0.3,
            "moved a thousand times as fast as in the public code, as they still do around a first run": (
                last["margin"][RATE] / by_name(fehervari2019.METHODS)["margin"].settings[RATE] == 1000
            ),
            "as they still do around a first run; the rule is the same": "proxy_std" not in last["proxy_nca"],
            "in which four triplet minings and two margins counted as losses of their own": (
                Counter(known["roth-density"].measure["merged"].values()) == {"triplet": 4, "margin": 2}
            ),
            "on Cars crops the best rate of normalised softmax is a third of the shared one, just within it": (
                round(shared / grid) == 3 and shared / grid < rule.STEP
            ),
        },
        "claims.retracted": {
            "a single model of DREML has 12 dimensions, the other methods have 64 or more": (
                embedding.pop("dreml") == 12 and min(embedding.values()) == 64
            ),
            "the joined models have twelve times the dimensions of a single one, and an untrained layer": (
                by_name(first.methods)["dreml"].changes["members"] == 12
                and all(layer[128] > layer[16] for layer in layers)
            ),
            "most methods lie within a standard deviation of their mean": all(
                ((each - each.mean()).abs() < each.std()).mean() > 0.5 for each in r1
            ),
            "the first point of our curves lies behind a whole epoch of training, at a higher rate": all(
                study.protocol.eval_every == 1 and study.protocol.lr > oi2021.PROTOCOL.lr for study in around("oi2021")
            ),
            "photographs that are stored with 112 pixels a side are enlarged": all(
                registry.SOURCES[study.dataset].form.size == 112 < study.protocol.image_size
                for study in around("roth2020")[1:]
            ),
            "every layout has the rate and the epochs of the one with 25 images of 3 classes": not any(
                each.changes.keys() & {"lr", "max_epochs"}
                for study in around("zhai2019/samples")
                for each in study.methods
            ),
            "a tenth of our training classes is 4 to 10 classes, of the paper's about 1,100": (
                (min(tenths), max(tenths), round(training.SOP[0] / 10, -2)) == (4, 10, 1100)
            ),
        },
        "claims.untestable": {
            "no study has CosFace or ArcFace with several numbers of images of a class": max(sizes) == 1,
            "every batch size was run at one learning rate": not any(
                "lr" in each.changes for study in of_batches for each in study.methods
            ),
        },
        "claims.statistic": {
            "searched from 1e-6 to 1": by_name(musgrave2020.METHODS)["cosface"].space[RATE].low == 1e-6,
            "512 dimensions, all in batches of 5 images of 15 classes": all(
                study.protocol.embedding_dim == 512
                and {(15, 5)} == {layout(each) for each in study.methods if each.level == "5x15"}
                for study in small
            ),
            "NMI of 1,000 random embeddings of 250 classes": (
                known["musgrave-nmi-formula"].measure == {"name": "nmi_against_formula", "points": 1000, "classes": 250}
            ),
            "R@1 with minus without regularisation, mean over five losses": len(
                known["roth-regularisation"].measure["pairs"]
            )
            == 5,
            "minus that of contrastive after 3,000 steps": zeng.protocol.iterations_per_epoch * zeng.protocol.max_epochs
            == 3000,
            "after 300 of 3,000 steps": known["zeng-early"].measure["share"] == 0.1,
            "NMI of an untrained conv4 on glyphs, 4 images per class": (
                known["musgrave-nmi-random-trunk"].measure["images_per_class"] == 4
            ),
            "R@1 at 512 dimensions minus that at 128": (
                [known["roth-dims-128"].measure[end] for end in ("first", "second")] == ["dim512", "dim128"]
            ),
            "each searched three times": studies.get(TABLES[0]).repetitions == 3,
            "the best other method of 64 dimensions: DREML, an ensemble, and ProxySoftmax, 2048 bits, left out": (
                [name for name, dim in embedding.items() if dim != 64] == ["proxy_softmax"]
                and embedding["proxy_softmax"] == 2048
            ),
        },
        "claims.rule": {
            "until then two claims were withdrawn for it, by hand": (
                sum("every layout has the rate" in each.retracted for each in CLAIMS) == 2
            ),
            "three reruns, rows or seeds, and an interval": rule.FEWEST == 3,
            "at its best within half a decade of the rate": 10**0.5 < rule.STEP < 3.5,
            "the limit is a tenth, or one point": set().union(*map(ends, worst)) == {0.1, 0.01} and len(worst) > 3,
        },
    }


def notes_and_findings():
    """Of losses, samplers, findings and levers."""
    scored, same = metrics.number_of_classes().index, page.frame("same-losses").index
    arcface = page.frame("arcface-margin").loc["every logit"]
    tried = inspect.signature(training.histogram_choice).parameters
    named = {each.split(" = ")[0].split(",")[0] for each in same if " = " in each} - {"ProxyNCA"}
    refined = inspect.signature(structured_clustering.StructuredClustering).parameters["refinements"].default
    return {
        "method.idea": {
            "Of ten random batches, the one whose distances look": batches.DistributionMatching.candidates == 10,
            "The triplet loss, with five ways to choose its triplets": len(notes.OTHERS["triplet_mined"].losses) == 5,
        },
        "method.where": {"in at most $r = 5$ refinements": refined == 5},
        "method.draws": {"of a pool of 1,024 images": batches.FromMemory.pool_size == 1024},
        "method.ours": {"an ensemble of 12 such models": fehervari2019.DREML.changes["members"] == 12},
        "findings.what": {
            "right one of ten batches chosen, in 40 pools": (
                (tried["candidates"].default, tried["pools"].default) == (10, 40)
            )
        },
        "findings.right": {
            "MAP@R, 25 classes": scored[0] == 25,
            "loss of a perfect batch: 0": page.frame("smooth-ap")["ours"].max() < 1e-6,
            "gap of one function: 0": page.frame("same-losses")["value"].iloc[:2].max() < 1e-9,
            "three older losses": len(named) == 3,
            "no training class tested": page.frame("sop-split").loc["official", "tested_training_classes"] == 0,
        },
        "findings.wrong": {
            "% with 200": scored[-1] == 200,
            ", as without": abs(arcface["zero"] - arcface["half"]) < 1e-9,
            "three new names": len(named) == 3,
        },
        "variance.levers": {
            "the folds' models joined instead of one": studies.get(TABLES[0]).protocol.folds == 4,
            "512 dimensions instead of 64": levers.SIZES == ("dim64", "dim512"),
        },
    }


def checks():
    return deviations() | claims() | notes_and_findings()
