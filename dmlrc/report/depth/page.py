"""Depths of training as the chapter prints them: cells of tables, and sentences with their numbers."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import pandas as pd

from dmlrc import studies
from dmlrc.report import labels, titles
from dmlrc.report.depth.measures import (
    ALL,
    ALONE,
    BLOCK,
    OMNIGLOT,
    Depth,
    agreement,
    gains,
    luck,
    spread,
    surely_turned,
    turned,
    turned_by_luck,
)
from dmlrc.report.significance.page import ranked_cells
from dmlrc.report.statistics import Estimate

RANGE, LUCK = "From worst to best", "The same by luck alone"
_LABELS = {ALL: "everything"}
"""The depths as they are called behind the name of the data set."""
_TRAINED = {ALONE: " with the linear embedder alone", BLOCK: " with the last block trained too", ALL: ""}


def images_sentence(study: str) -> str:
    """What a network of these studies sees, and what of it trains. study: with the last block trained.

    >>> images_sentence("cars196crops-last-block")
    'On photographs both depths see images of 112 x 112 pixels; the block is `features.12` of SqueezeNet 1.0.'
    """
    told = studies.get(study).protocol
    return (
        f"On photographs both depths see images of {told.crop_size} x {told.crop_size} pixels; the block is "
        f"`{told.train_from}` of {titles.TRUNKS[told.trunk]}."
    )


def cells(found: Sequence[Depth]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Cells and marks of a row a method, a column a depth, see `ranked_cells`; below, what they lie between.

    That is the untrained trunk, and the ranges; percent.
    """
    columns, marks = {}, {}
    for depth in found:
        texts, looks = ranked_cells(depth.compared.summary, depth.untrained)
        columns[depth.label] = dict(texts.rename(labels.method_label)) | {
            labels.UNTRAINED: labels.percent(depth.untrained) or "–",
            RANGE: _range(spread(depth)),
            LUCK: labels.percent(luck(depth)),
        }
        marks[depth.label] = dict(looks.rename(labels.method_label))
    table = pd.DataFrame(columns).fillna("–").rename_axis("Method")
    return table, pd.DataFrame(marks, index=table.index).fillna("")


def _range(found: Estimate) -> str:
    return f"{labels.percent(found.value)} [{labels.percent(found.low)}, {labels.percent(found.high)}]"


def numbers(found: Sequence[Depth]) -> pd.DataFrame:
    """The numbers behind `cells`, fractions, a row a depth and method, for the download."""
    rows = [
        {"depth": depth.label, "study": depth.compared.study, "method": name, "luck": depth.compared.luck}
        | dict(told[["mean", "low", "high", "rank_low", "rank_high"]])
        for depth in found
        for name, told in depth.compared.summary.iterrows()
    ]
    return pd.DataFrame(rows).set_index("depth")


def order_sentence(title: str, found: Sequence[Depth]) -> str:
    """Whether the order stays from each depth to the next, in a sentence a step."""
    told = []
    for one, other in pairwise(found):
        rho, (changed, pairs), lucky = agreement(one, other), turned(one, other), turned_by_luck(one, other)
        follows = _what_follows(changed > lucky.high, _sure(one, other))
        told.append(
            f"{title}, {one.label} against {other.label}: the rank correlation of the two orders is {rho.value:.2f} "
            f"[{rho.low:.2f}, {rho.high:.2f}], and {changed} of {pairs} pairs change places. Had the losses kept the "
            "order and the gaps of the first depth, luck of search and seed alone would have swapped about "
            f"{lucky.value:.0f} ({lucky.low:.0f} to {lucky.high:.0f}){follows}"
        )
    return " ".join(told)


def _what_follows(beyond: bool, sure: str) -> str:
    """The end of `order_sentence`. beyond: whether more pairs change places than by luck; sure: which surely do."""
    if beyond:
        return f", so the order changes{f', surely that of {sure}' if sure else ''}."
    if sure:
        return f". So their number shows no change, but {sure} change places: each depth tells them apart."
    return ", so no change of the order is shown."


def _sure(one: Depth, other: Depth) -> str:
    """The pairs that surely change places, or how many there are of them."""
    pairs = surely_turned(one, other)
    named = [labels.listed(map(labels.method_label, pair)) for pair in pairs]
    return "; ".join(named) if len(pairs) < 3 else f"{len(pairs)} pairs"


def order_in_short(found: Mapping[str, Sequence[Depth]]) -> str:
    """How many pairs change places from each depth to the next, and by luck. found: by title.

    Whether the order changes is told by the steps on the same images; where there are none, by all.
    """
    steps, beyond, surely = {}, [], []
    same = any(depth.label == BLOCK for depths in found.values() for depth in depths)
    for title, depths in found.items():
        for one, other in pairwise(depths):
            (changed, pairs), lucky = turned(one, other), turned_by_luck(one, other)
            sure = _sure(one, other)
            if other.label != ALL or not same:
                beyond.append(changed > lucky.high)
                surely.append(sure)
            told = steps.setdefault((one.label, other.label), [])
            told.append(
                f"{changed} of {pairs}{'' if told else ' pairs of losses change places'} on {title} (by luck alone "
                f"{lucky.low:.0f} to {lucky.high:.0f}{f'; surely {sure}' if sure else ''})"
            )
    if not steps:
        return ""
    answer = SINGLE if any(surely) else NO_CHANGE
    if any(beyond):
        answer = "The order changes" if all(beyond) else "The order changes in part"
    each = [f"from {one} to {other}, {labels.listed(told)}" for (one, other), told in steps.items()]
    other_data = (
        " The step to everything is one to other images too, so what changes there says nothing of depth alone."
        * any(other == ALL for _, other in steps)
    )
    return f"{answer}: {'; '.join(each)}.{other_data}"


NO_CHANGE, SINGLE = "No change of the order is shown", "Only single pairs surely change places"


def on_own_images(found: Mapping[str, Sequence[Depth]]) -> dict[str, list[Depth]]:
    """The depths of each data set by its title: Omniglot, which stands beside every other one, is a data set too."""
    own = {title: [depth for depth in depths if depth.label != ALL] for title, depths in found.items()}
    everything = [depth for depths in found.values() for depth in depths if depth.label == ALL][:1]
    return {title: depths for title, depths in {**own, OMNIGLOT: everything}.items() if depths}


def spread_in_short(found: Mapping[str, Sequence[Depth]]) -> str:
    """How far apart the losses lie at each depth, in one sentence; "" without any depth. found: by title."""
    told = [
        f"on {title} "
        + labels.listed(
            f"{labels.percent(spread(depth).value)} points or {_spread_of_mean(depth)} % of their mean "
            f"({_LABELS.get(depth.label, depth.label)})"
            for depth in depths
        )
        for title, depths in on_own_images(found).items()
    ]
    return f"From the worst loss to the best in MAP@R: {'; '.join(told)}." if told else ""


def _spread_of_mean(depth: Depth) -> str:
    return labels.percent(spread(depth).value / depth.scores.mean(), digits=1)


def spread_sentence(title: str, found: Sequence[Depth]) -> str:
    """How far apart the losses lie at each depth of one data set, and what all of them gain from one to the next.

    found: of `on_own_images`.
    """
    ranges = labels.listed(
        f"{labels.percent(spread(depth).value)} points ({_spread_of_mean(depth)} % of the mean){_TRAINED[depth.label]}"
        for depth in found
    )
    text = f"{title}: the best loss lies above the worst by {ranges}."
    if [depth.label for depth in found] != [ALONE, BLOCK]:
        return text
    gained = gains(found[0], found[1])
    return text + (
        f" Training the block adds {100 * gained.mean():.1f} points on average, least to "
        f"{labels.method_label(gained.idxmin())} ({labels.signed(gained.min(), unit='')}), most to "
        f"{labels.method_label(gained.idxmax())} ({labels.signed(gained.max(), unit='')})."
    )


def luck_sentence(found: Mapping[str, Sequence[Depth]]) -> str:
    """Which study lends the luck of search to the depths of each data set; "" where none does. found: by title."""
    borrowers: dict[str, list[str]] = {}
    for title, depths in on_own_images(found).items():
        for donor in dict.fromkeys(depth.compared.donor for depth in depths if depth.compared.donor):
            borrowers.setdefault(_lent_by(donor), []).append(title)
    told = [f"for {labels.listed(borrowing)} {donor}" for donor, borrowing in borrowers.items()]
    return (
        "Each method is searched once at each depth. The luck of search is therefore borrowed, in proportion to the "
        f"mean score, from a methods table whose searches were repeated: {'; '.join(told)}. Those searches have 50 "
        "trials, these 25, after which the best validation scores of the same searches scatter more "
        f"({_times(found)}). What is said of pairs that change places allows for that, the intervals do not."
        if told
        else ""
    )


def _times(found: Mapping[str, Sequence[Depth]]) -> str:
    """How much more they scatter: "1.1 times for Birds"."""
    told = {title: max(depth.wider for depth in depths) for title, depths in on_own_images(found).items()}
    return labels.listed(f"{times:.1f} times for {title}" for title, times in told.items())


def _lent_by(donor: str) -> str:
    """
    >>> _lent_by("cub200-2010-frozen")
    'that of CUB-200 (2010), frozen EfficientNet-Lite0 at 224 px'
    """
    told = studies.get(donor).protocol
    return f"that of {titles.title(donor)}, frozen {titles.TRUNKS[told.trunk]} at {told.crop_size} px"


def left_out_sentence(found: Mapping[str, Sequence[Depth]]) -> str:
    """Which methods are left out, since another depth lacks them; "" if none. found: by title."""
    told = [
        f"{labels.listed(map(labels.method_label, sorted(depth.left_out)))} of {title}, {depth.label}"
        for title, depths in found.items()
        for depth in depths
        if depth.left_out
    ]
    return f"Left out, having no finished rerun at another depth: {'; '.join(told)}." if told else ""


def runs_sentence(found: Iterable[Depth]) -> str:
    """On how many reruns a score rests."""
    counts = sorted({int(count) for depth in found for count in depth.compared.runs.groupby("method").size()})
    return f"n = {' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} reruns."


def missing_sentence(missing: Mapping[str, str]) -> str:
    """Which studies of the chapter are not run, and how to run them; "" if none."""
    if not missing:
        return ""
    named = "; ".join(f"{titles.title(name)}: {expected}" for name, expected in missing.items())
    commands = "\n".join(f"dmlrc study run {name} --workers 2" for name in missing)
    begin = f"Not finished so far, with the time that each takes: {named}. To run or resume them:"
    return f"{begin}\n\n```shell\n{commands}\n```"
