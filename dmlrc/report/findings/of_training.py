"""The findings about training code, as they are shown; `training` computes them."""

import math
from collections.abc import Sequence

from dmlrc.records import StudyRecords
from dmlrc.report import labels, statistics, titles
from dmlrc.report.findings import figures, training
from dmlrc.report.findings.finding import Drawing, Finding, Pair, Table, cells, percent
from dmlrc.report.findings.of_metrics import MUSGRAVE, ROTH


def findings(edition: Sequence[StudyRecords]) -> list[Finding]:
    """All of them; the validation curves are those of these studies."""
    return [
        arcface_margin(),
        coreset(),
        wasserstein(),
        own_maximum(edition),
        arcface_clamp(),
        soft_triple(),
        crops(),
        sop_split(),
        smooth_ap(),
    ]


def arcface_margin() -> Finding:
    """ArcFace with its margin added to all logits."""
    table = training.arcface_margins()
    shifted = table.loc["every logit"]
    heads = {"zero": "loss, margin 0", "half": "loss, margin 0.5 rad", "gradient": "change of the gradient"}
    exhibit = Table(
        "arcface-margin",
        cells(table, heads, index="margin added to"),
        table,
        "ArcFace (scale 16) on one random batch of 112 images and 100 classes. The change of the gradient: largest "
        "difference of an entry over the largest entry. Computed live, seed 0.",
        f"The loss is the same, and gradients agree to {labels.number(shifted['gradient'])}. An *ArcFace* row "
        "trained this way is a second *Softmax* row.",
    )
    return Finding(
        "arcface-margin",
        "ArcFace whose margin cancels",
        f"{ROTH}, corrected later",
        f"the loss is {shifted['zero']:.3f} without a margin and {shifted['half']:.3f} with 0.5 rad",
        "Add the margin to the logit of the image's own class alone.",
        (exhibit,),
        f"ArcFace with its margin added to every logit has the loss {shifted['zero']:.3f} with and without the margin: "
        "it is normalised softmax.",
        {"arcface_every_logit": float(shifted["half"])},
    )


def coreset() -> Finding:
    """A coreset measured in one pool and looked up in another."""
    table = training.coreset_radius()
    radius = table["mean"]
    exhibit = Table(
        "coreset",
        cells(table, {"mean": "covering radius", "std": "std"}, index="anchors"),
        table,
        "The largest distance of an image of the pool to the nearest of 28 anchors: mean over 20 pools of 512, and "
        "standard deviation. A mixture of 100 Gaussian classes of unequal size. Computed live, seed 0.",
        f"With another pool the radius is {radius['another pool']:.2f}, no better than random anchors "
        f"({radius['uniform']:.2f}); the coreset of the right pool has {radius['greedy']:.2f}. Ours measures and "
        "chooses in one pool.",
    )
    return Finding(
        "coreset",
        "A coreset of one pool looked up in another",
        ROTH,
        "covering radius " + labels.each(radius, "{:.2f}".format),
        "Measure and choose in one pool.",
        (exhibit,),
    )


def wasserstein() -> Finding:
    """The Wasserstein distance of histograms whose heights are taken for samples."""
    table, choice = training.histogram_pairs(), training.histogram_choice()
    turned = table.loc["reversed"]
    agrees = statistics.share(round(choice["same"] * choice["pools"]), int(choice["pools"]))
    exhibit = Table(
        "wasserstein",
        cells(table, {"as_weights": "heights as weights", "as_samples": "heights as samples"}, index="a histogram and"),
        table,
        "Wasserstein distance of a narrow histogram on [0, 2] to others. Computed live, seed 0.",
        f"A histogram and its reverse are {turned['as_weights']:.2f} apart, not "
        f"{turned['as_samples']:.2f}. Choosing among ten candidate batches, the faulty distance agrees with the right "
        f"one in {percent(choice['same'], 0)} % of {choice['pools']:.0f} pools (95 % interval "
        f"{percent(agrees.low, 0)} to {percent(agrees.high, 0)} %), where chance would do so 10 % of the "
        f"time; its choice is {1000 * choice['wrong']:.1f} thousandths from the pool on average, a random batch "
        f"{1000 * choice['random']:.1f}, the right choice {1000 * choice['right']:.1f}.",
    )
    return Finding(
        "wasserstein",
        "Bin heights compared as samples",
        ROTH,
        f"a histogram and its reverse are {turned['as_samples']:.2f} apart instead of {turned['as_weights']:.2f}; of "
        f"ten batches the right one is chosen in {percent(choice['same'], 0)} % of {choice['pools']:.0f} pools",
        "Give the places of the bins as values and their heights as weights.",
        (exhibit,),
        pair=Pair(
            f"how often the right one of ten batches is chosen, in {choice['pools']:.0f} pools", choice["same"], 1.0
        ),
    )


def own_maximum(edition: Sequence[StudyRecords]) -> Finding:
    """P@1 at its own best epoch; without exhibits where no study validated a rerun more than once."""
    table = training.own_maximum(edition)
    several = table[table["evaluations"] > 1]  # a run that was validated once has no other maximum
    means = several.groupby("study", sort=False)["inflation"].mean()
    part = training.longest_curves(table)
    exhibits = ()
    if len(part):
        most = labels.method_label(part["method"][part["inflation"].idxmax()])
        drawing = Drawing(
            "own-maximum",
            figures.own_maximum(part),
            f"Validation P@1 of the reruns, mean over folds and seeds, on `{part['study'].iloc[0]}`: at the checkpoint "
            "with the highest MAP@R, and at P@1's own best epoch. "
            + labels.captions(each for each in edition if each.name == part["study"].iloc[0]),
            f"P@1's own maximum is higher on average by {percent(part['inflation'].mean(), 2)} points, at most "
            f"{percent(part['inflation'].max(), 2)} ({most}), from only {part['evaluations'].mean():.1f} evaluations a "
            f"run on average. The gain differs by method: {training.swapped_pairs(part)} of "
            f"{len(part) * (len(part) - 1) // 2} pairs of methods change their order.",
        )
        exhibits = (drawing,)
    gained = labels.listed(f"{percent(value, 2)} points on {titles.title(name)}" for name, value in means.items())
    return Finding(
        "own-maximum",
        "Each metric at its own best epoch",
        f"{ROTH}, evaluation of runs",
        f"shown in part, on validation images: P@1 gains {gained}" if len(means) else "not run",
        "Choose one checkpoint by validation, and report every metric of it.",
        exhibits,
        pair=Pair("validation P@1 of a run", part["own_maximum"].mean(), part["at_checkpoint"].mean())
        if len(part)
        else None,
    )


def arcface_clamp() -> Finding:
    """Cosines clamped ahead of ArcFace's margin, and the SNR loss without its regulariser."""
    pulls, start, table = training.arcface_pull(), training.arcface_without_gradient(), training.snr_regulariser()
    clamp = Drawing(
        "arcface-clamp",
        figures.arcface_pull(pulls),
        "The pull of ArcFace (margin 0.5 rad, scale 16) on one image towards its own class, against its cosine to it: "
        "the gradient along the circle, with one other class at a right angle. At the jump on the left the angle and "
        "the margin pass 180 degrees, and the loss goes on linearly. Computed live.",
        "The clamped loss departs left of 0. With random embeddings and class weights, as at the start of training, "
        f"{percent(start['own'], 0)} % of the images lie there, and {percent(start['pairs'], 0)} % of all pairs of "
        "image and class have no gradient.",
    )
    lost = 1 - table.loc["weight 0", "loss"] / table.loc["as in the paper", "loss"]
    heads = {"loss": "loss", "gradient": "length of the gradient", "drift": "its part along the sum"}
    regulariser = Table(
        "snr-regulariser",
        cells(table, heads, index="regulariser"),
        table,
        f"The SNR triplet loss (margin {training.SNR_MARGIN}, weight {training.SNR_WEIGHT}) on one random batch of 112 "
        "images, with and without its regulariser. Computed live, seed 0.",
        "Without the regulariser nothing acts on the sum of the coordinates. The effect on the "
        f"loss is small here, {percent(lost)} %; what it does to a comparison of miners is another matter, since one "
        "of them is trained on another loss.",
    )
    return Finding(
        "arcface-clamp",
        "Negative cosines clamped; a regulariser left out",
        ROTH,
        f"{percent(start['own'], 0)} % of the images are not pulled to their class at the start of training",
        "Leave cosines as they are, and train all variants with the same loss.",
        (clamp, regulariser),
        pair=Pair("images pulled to their class at the start", 1 - start["own"], 1.0),
    )


def soft_triple() -> Finding:
    """SoftTriple whose weights of the centres are nearly constant."""
    table = training.soft_triple_of_perfect_batches()
    paper, code = table.loc["as in the paper"], table.loc["all three"]
    exhibit = Table(
        "soft-triple",
        cells(table, {"perfect": "loss, perfect batch", "random": "loss, random batch"}, index="SoftTriple"),
        table,
        "SoftTriple (λ 8, γ 0.1, margin 0.01) of 112 images and 100 classes with two random centres each: of images "
        "that lie on a centre of their class, and of random ones. Each change of the public code alone, then all "
        "three. Computed live, seed 0.",
        f"With all three, a batch that could not be better has the loss {code['perfect']:.2f}, that of a guess among "
        f"100 classes ({math.log(100):.2f}); by the formula it has {paper['perfect']:.2f}. Ours follows the formula.",
    )
    return Finding(
        "soft-triple",
        "SoftTriple with its softmax over the classes",
        ROTH,
        f"images that lie on a centre of their class have the loss {code['perfect']:.2f} instead of "
        f"{paper['perfect']:.2f} at the start of training",
        "Normalise each centre, divide by γ, and take the softmax over the centres of a class.",
        (exhibit,),
    )


def crops() -> Finding:
    """Random crops as the settings draw them and as the sentence about them reads."""
    sides = training.crop_sides()
    drawn, literal = (training.crops(sides).iloc[row] for row in range(2))
    smallest = math.sqrt(training.AREA[0]) * training.IMAGE
    drawing = Drawing(
        "crops",
        figures.crops(sides, smallest),
        f"Sides of {len(next(iter(sides.values()))):,} random crops of a 256-pixel image, as the settings draw them "
        "(by our own augmentation), and as the sentence reads. Dotted: the root of 0.16, "
        f"{smallest:.0f} pixels. Computed live, seed 0.",
        f"By the settings no crop has a side, the root of its area, below {smallest:.0f} pixels; by the text "
        f"{percent(literal['below_102'], 0)} % would. "
        f"The mean crop covers {percent(drawn['area'], 0)} % of the image, by the text "
        f"{percent(literal['area'], 0)} %. Our protocol follows the settings.",
    )
    return Finding(
        "crops",
        '"Crops between 40 and 256 pixels"',
        f"{MUSGRAVE}, text and default settings",
        f"the smallest crop has a side (root of its area) of {drawn['smallest']:.0f} pixels; of sides from 40 to 256, "
        f"{percent(literal['below_102'], 0)} % would be smaller",
        "Say whether a scale is a share of the area or of the side.",
        (drawing,),
        pair=Pair("share of the image in a mean crop", literal["area"], drawn["area"]),
    )


def sop_split() -> Finding:
    """SOP by its official lists and cut in halves."""
    table = training.sop_splits()
    ours, official = table.loc["first half"], table.loc["official"]
    heads = {
        "train_val": "classes for training",
        "test": "for testing",
        "tested_training_classes": "training classes tested",
    }
    exhibit = Table(
        "sop-split",
        cells(table, heads, index="split"),
        table,
        "Classes of SOP by the official lists and by halves, from the numbers of classes alone. Computed live by our "
        "splits.",
        f"Cut in halves, {ours['tested_training_classes']} class of the official training list is tested. That "
        "hardly moves a number; it does mean that models trained on the official list have seen a test class of the "
        "halves.",
    )
    return Finding(
        "sop-split",
        "SOP cut in halves",
        f"{MUSGRAVE}, protocol",
        f"{ours['train_val']:,} / {ours['test']:,} classes instead of {official['train_val']:,} / {official['test']:,}",
        "Name the split, and keep to one.",
        (exhibit,),
    )


def smooth_ap() -> Finding:
    """A library's Smooth-AP, which swaps classes and images."""
    table = training.smooth_ap_of_perfect_batches()
    wrong = table[table["blocks"] > 1e-6].iloc[0]
    rows = table.assign(batch=table["classes"].astype(str) + " x " + table["images"].astype(str)).set_index("batch")
    heads = {"sorted": "labels sorted", "ours": "groups by label", "blocks": "blocks"}
    exhibit = Table(
        "smooth-ap",
        cells(rows, heads, index="classes x images"),
        table,
        "Smooth-AP loss of perfect batches, every class at one point and at a right angle to the others; 0 is right. "
        "*Blocks*: the library's rule, restated; a test holds it against the library. Computed live.",
        f"Unequal numbers show it: a perfect batch of {wrong['classes']} x {wrong['images']} costs "
        f"{wrong['blocks']:.3f}. The amount depends on where the classes lie; that it is not 0 does not.",
    )
    return Finding(
        "smooth-ap",
        "Smooth-AP with classes and images swapped",
        "pytorch-metric-learning 2.9",
        f"a perfect batch of {wrong['classes']} x {wrong['images']} has the loss {wrong['blocks']:.3f} instead of 0",
        "Group by label, and test with fewer classes than images a class.",
        (exhibit,),
        scalars={"smooth_ap_of_a_perfect_batch": float(wrong["blocks"])},
    )
