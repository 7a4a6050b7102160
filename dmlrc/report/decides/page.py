"""What decides a ranking, as the chapter prints it: cells of tables, and sentences with their numbers."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from dmlrc import studies
from dmlrc.methods import LEARNING_RATE
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import labels, statistics, tables
from dmlrc.report.decides.measures import (
    CHOSEN,
    SEARCHED,
    TOO_HIGH,
    AtRates,
    Part,
    choosing,
    levelled,
    levels,
    validation_and_test,
    without_each_recipe,
)
from dmlrc.report.significance import measures as significance
from dmlrc.report.significance.page import ranked_cells


def drawable(found: Sequence[Part]) -> list[Part]:
    """The parts of which it is known how they move methods against one another: those of more than one method."""
    return [part for part in found if not np.isnan(part.against.value)]


def part_cells(found: Sequence[Part]) -> pd.DataFrame:
    """Parts as cells; percent of the mean MAP@R, which is itself a column."""
    rows = {
        part.name: {
            "relative to one another": _percent(part.against.value) or "one method only",
            "interval": _interval(part),
            "together": _percent(part.together) or "–",
            "levels": f"{part.levels:,}",
            "methods": str(part.methods),
            "classes": part.on,
            "mean MAP@R": labels.percent(part.mean),
        }
        for part in found
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("Part")


def _percent(share: float) -> str:
    return labels.percent(share, digits=1)


def _interval(part: Part) -> str:
    if np.isnan(part.against.value):
        return "–"
    return f"{_percent(part.against.low)} to {_percent(part.against.high)}"


def part_numbers(found: Sequence[Part]) -> pd.DataFrame:
    """The numbers of `part_cells`, fractions, for the download."""
    rows = {
        part.name: {
            "against": part.against.value,
            "low": part.against.low,
            "high": part.against.high,
            "interval": part.against.how,
            "together": part.together,
            "levels": part.levels,
            "methods": part.methods,
            "classes": part.on,
            "mean": part.mean,
        }
        for part in found
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("part")


def counts_sentence(studies: Iterable[Sequence[Part]]) -> str:
    """How many losses each part was measured with, and on which classes, in a sentence or two. studies: their parts."""
    names: dict[tuple[str, int], dict[str, None]] = {}
    for part in (part for found in studies for part in found):
        names.setdefault((part.on, part.methods), {})[labels.aside(part.name)] = None
    told = {
        on: [f"{labels.listed(names[on, count])} with {count} losses" for classes, count in names if classes == on]
        for on in ("test", "validation")
    }
    once = ", one run each, its luck not taken out"
    said = [f"On {on} classes{once * (on == 'validation')}: {'; '.join(each)}." for on, each in told.items() if each]
    return " ".join(said)


def parts_sentence(records: StudyRecords, found: Sequence[Part]) -> str:
    """Which parts move the methods against one another more than the losses differ, in a sentence or two."""
    by_name = {part.name: part for part in drawable(found)}
    if "loss" not in by_name or len(by_name) < 2:
        return f"`{records.name}`: too little was repeated or varied to say what decides its ranking."
    loss = by_name.pop("loss")
    first = (
        f"On `{records.name}` the losses differ by {_percent(loss.against.value)} % of their mean MAP@R (standard "
        "deviation). "
    )
    surely, less = _beside(loss, by_name.values())
    if not surely and not less:
        most = next(iter(by_name.values()))
        return first + (
            f"Nothing else changes the gaps between them as much; next comes the {most.name}, with "
            f"{_percent(most.against.value)} %."
        )
    which, others = (labels.listed(map(_moves, parts)) for parts in (surely, less))
    if not surely:
        change = "changes" if len(less) == 1 else "change"
        return f"{first}{_sentence(others)} {change} the gaps between them by as much or more, though not clearly."
    change = "changes" if len(surely) == 1 else "change"
    so = f"; {others} may too" * bool(less)
    return f"{first}{_sentence(which)} clearly {change} the gaps between them by more{so}."


def _beside(loss: Part, others: Iterable[Part]) -> tuple[list[Part], list[Part]]:
    """The parts that move the methods against one another clearly more than the losses differ, and perhaps more.

    Clearly: the whole intervals lie apart.
    """
    above = [part for part in others if part.against.value >= loss.against.value]
    surely = [part for part in above if part.against.low > loss.against.high]
    return surely, [part for part in above if part not in surely]


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _moves(part: Part) -> str:
    name, _, which = part.name.partition(", ")
    where = "on validation classes" * (part.on == "validation")
    return f"the {name} ({', '.join(filter(None, [which, f'{_percent(part.against.value)} %', where]))})"


def section_sentence(records: StudyRecords, found: Sequence[Part]) -> str:
    """`parts_sentence`, `recipes_sentence` and `together_sentence` of a study, which is named once."""
    said = parts_sentence(records, found), recipes_sentence(records), together_sentence(records, found, named=False)
    return " ".join(filter(None, said))


def recipes_sentence(records: StudyRecords) -> str:
    """What is left of the training recipe without one of the papers, in a sentence; "" where fewer than three are."""
    left = without_each_recipe(records)
    if len(left) < 3:
        return ""
    least = min(left, key=left.__getitem__)
    return (
        f"The training recipe depends on which papers are compared: without {least} it is {_percent(left[least])} %, "
        f"without another one up to {_percent(max(left.values()))} %."
    )


def parts_in_short(found: Mapping[str, Sequence[Part]]) -> str:
    """What clearly moves the methods more than the losses differ, by study, in one sentence; "" if nothing is known.

    found: study -> `measures.parts`.
    """
    surely: dict[str, list[str]] = {}
    for name, parts in found.items():
        by_name = {part.name: part for part in drawable(parts)}
        if "loss" in by_name and len(by_name) > 1:
            more, _ = _beside(by_name.pop("loss"), by_name.values())
            moved = labels.listed(f"the {labels.aside(part.name)}" for part in more) or "nothing"
            surely.setdefault(moved, []).append(f"`{name}`")
    if set(surely) == {"nothing"}:
        return f"Nothing clearly moves a ranking more than the loss itself does on {labels.listed(surely['nothing'])}."
    told = [f"{moved} on {labels.listed(surely[moved])}" for moved in sorted(surely, key="nothing".__eq__)]
    return f"What clearly moves a ranking more than the loss itself does: {'; '.join(told)}." if told else ""


def levelled_in_short(edition: Sequence[StudyRecords]) -> str:
    """The share of the differences that tuning takes away, study by study, in one sentence; "" where none is known."""
    told = {}
    for records in edition:
        found = levelled(records)
        if "1" in found and found["search"] > 0:
            told[records.name] = f"{100 * max(0, 1 - found['search'] / found['1']):.0f} %"
    return (
        f"Of the spread of methods at one random setting each, a search takes away {labels.by_study(told)}."
        if told
        else ""
    )


def choosing_in_short(edition: Sequence[StudyRecords]) -> str:
    """What choosing a loss by validation changes on test, study by study, in one sentence; "" where it is not known."""
    told, clear = {}, []
    for records in edition:
        found = choosing(records)
        if not np.isnan(found["rho"]):
            told[records.name] = _change(found)
            clear.append(not found["held_out"] or abs(found["regret"]) > found["uncertain"])
    changes = "changes" if any(clear) else "does not clearly change"
    what = f"Choosing the loss by validation instead of by test {changes} its test MAP@R, in points"
    return f"{what}: {labels.by_study(told)}." if told else ""


def _change(found: Mapping) -> str:
    """What the choice changes, in points, and what luck may make of it. found: `measures.choosing`."""
    luck = f" ± {labels.percent(found['uncertain'])}" if found["held_out"] else " (not corrected for picking the best)"
    return f"{labels.signed(-found['regret'], 2, '')}{luck}"


def together_sentence(records: StudyRecords, found: Sequence[Part], named: bool = True) -> str:
    """The part that moves all methods together most, and how little that changes their order; "" where none does.

    named: whether it says of which study that holds.
    """
    moving = [part for part in found if not np.isnan(part.together)]
    if not moving:
        return ""
    most = max(moving, key=lambda part: part.together)
    together, against = _percent(most.together), most.against.value
    begin = f"On `{records.name}` changing" if named else "Changing"
    if np.isnan(against):
        return (
            f"{begin} the {most.name}, which was done for one method only, moves its score by {together} % of its mean."
        )
    return (
        f"{begin} the {most.name} moves all methods together by {together} % of their mean, and relative to one "
        f"another by {_percent(against)} %."
    )


def rate_head(found: AtRates, which: str) -> str:
    """The heading of one of the rates: the rate, and how it came to be."""
    return which if which == SEARCHED else f"{labels.rate(found.rate(which))} ({which})"


def rates_cells(found: AtRates) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Test scores at each rate as cells and marks, see `ranked_cells`; CUT_OFF where many runs were.

    Last, where rates were searched, those that were found; below the methods the untrained trunk.
    """
    columns, marks = {}, {}
    for which, records in found.made.items():
        head, scores = rate_head(found, which), found.scores[which].dropna(subset="mean")
        texts, marks[head] = ranked_cells(scores, found.untrained)
        columns[head] = labels.against_limit(texts, tables.cut_off(records).reindex(texts.index))
    if len(rates := found.rates_found()):
        columns["rate found"] = rates.map(labels.rate)
    cells = pd.DataFrame(columns, index=found.scores.index)
    if not np.isnan(found.untrained):
        cells.loc[PRETRAINED] = pd.Series(labels.percent(found.untrained), list(marks))
    cells = cells.fillna("–")
    marked = pd.DataFrame(marks, index=cells.index, columns=cells.columns).fillna("")
    names = pd.Index(map(labels.method_label, cells.index), name="Method")
    return cells.set_axis(names), marked.set_axis(names)


def levels_cells(found: AtRates) -> pd.DataFrame:
    """`measures.levels` as cells, in points; without a row where that is empty."""
    frame = levels(found)
    if frame.empty:
        return frame
    known = frame.index.map(found.knows_its_luck)
    cells = {"worst to best": frame["spread"].map(labels.percent)}
    for base in (name for name in tables.CLASSICS if name in frame):
        gains = [
            f"{labels.signed(each.value, 2, '')}{f' ± {labels.percent(each.half)}' * luck}"
            for each, luck in zip(frame[base], known, strict=True)
        ]
        cells[f"newer over {labels.method_label(base)}"] = pd.Series(gains, frame.index)
    differ = frame["differ"].astype(str) + " of " + frame["pairs"].astype(str)
    cells["pairs that differ"] = differ.where(known, "not known")
    return pd.DataFrame(cells).rename(index=lambda which: rate_head(found, which)).rename_axis("Learning rate")


def searched_sentence(found: AtRates) -> str:
    """Which rates the searches found, how many near an end of what was searched, and how many searches fell short.

    Short: on the validation classes the best trial is lower than those at the shared rate, which the range contains.
    "" without such searches.
    """
    rates = found.rates_found()
    if rates.empty:
        return ""
    known = studies.known()[found.made[SEARCHED].name]
    space = known.methods[0].space[LEARNING_RATE]
    near = int(((rates < 2 * space.low) | (rates > space.high / 2)).sum())
    least, most = rates.idxmin(), rates.idxmax()
    return (
        f"On `{found.made[CHOSEN].name}` the searches found rates from {labels.rate(rates[least])} "
        f"({labels.method_label(least)}) to {labels.rate(rates[most])} ({labels.method_label(most)}); "
        f"{near or 'none'} of {len(rates)} {'lies' if near == 1 else 'lie'} within a factor of two of an end of the "
        f"range searched, {labels.rate(space.low)} to {labels.rate(space.high)}.{_fell_short(found)}"
    )


def _fell_short(found: AtRates) -> str:
    shared, own = (
        validation_and_test(found.made[which])["validation"].groupby("method").mean() for which in (CHOSEN, SEARCHED)
    )
    short = (shared - own).dropna().sort_values()
    count = int((short > 0).sum())
    if not count:
        return ""
    most = short.index[-1]
    return (
        f" For {count} of {len(short)} the best trial is lower on the validation classes than at the shared rate, "
        f"which that range contains, most of all for {labels.method_label(most)} ({labels.percent(own[most])} % "
        f"against {labels.percent(shared[most])} %): with one more dimension and no more trials a search can "
        f"fall short.{_without(found, most)}"
    )


def _without(found: AtRates, method: str) -> str:
    """What would be said at searched rates without this method, with a space before it; "" where too few are left."""
    frame = levels(found, left_out=[method])
    if frame.empty:
        return ""
    row = frame.loc[SEARCHED]
    gains = [
        f"{labels.signed(row[base].value, 2, '')} over {labels.method_label(base)}"
        for base in tables.CLASSICS
        if base in frame
    ]
    return (
        f" Without {labels.method_label(method)} the losses at searched rates lie {labels.percent(row['spread'])} "
        f"points apart, and the newer ones {labels.listed(gains)}."
    )


def rates_sentence(found: AtRates) -> str:
    """How far the methods are apart on the test classes at each rate, and how much of their order the rate makes."""
    apart, changes, under = {}, [], []
    for which in found.made:
        rate = _at(found, which)
        below = int((found.means[which] < found.untrained).sum())
        if below:
            lie = "lie" if below > 1 else "lies"
            under.append(f"{_sentence(rate)}, {below} of the losses {lie} below the untrained trunk. ")
        if which != CHOSEN:
            both = found.beside(which)
            apart.setdefault(tuple(both.index), []).append(which)
            turned, pairs = statistics.turned(both[CHOSEN], both[which])
            changes.append(
                f"{_sentence(rate)}, {turned} of {pairs} pairs are in a different order from that at the chosen rate; "
                f"{_beyond_luck(found, which)}.{_cut_short(found, which)}"
            )
    spreads = "; ".join(_apart(found, list(methods), rates) for methods, rates in apart.items())
    return f"On the test classes of `{found.made[CHOSEN].name}`, {spreads}. {''.join(under)}{' '.join(changes)}"


def _at(found: AtRates, which: str) -> str:
    return "with a rate searched for each" if which == SEARCHED else f"at {rate_head(found, which)}"


def _apart(found: AtRates, methods: list[str], rates: Sequence[str]) -> str:
    """How far some methods are apart at these rates and at the chosen one, as half a sentence."""
    told = [
        f"{labels.percent(np.ptp(found.means.loc[methods, which]))} points apart {_at(found, which)}"
        for which in found.made
        if which in (*rates, CHOSEN)
    ]
    return f"{len(methods)} losses lie {labels.listed(told)}"


def _beyond_luck(found: AtRates, which: str) -> str:
    """How many gaps between two methods change by more than luck."""
    if not found.knows_its_luck(which):
        return "how much of that is luck of search is not known"
    moved, pairs = found.moved(which)
    gaps = f"the gap of {moved} pair changes" if moved == 1 else f"the gaps of {moved or 'no'} pairs change"
    return f"{gaps} by more than the luck of search and seed explains (Holm's correction for {pairs} pairs)"


def lent_sentence(found: AtRates) -> str:
    """Which tables borrow the luck of search, or do not know it, with a space before it; "" where each has its own."""
    lent = [_at(found, which) for which, each in found.compared.items() if each.luck == significance.BORROWED]
    donors = {each.donor for each in found.compared.values() if each.luck == significance.BORROWED}
    unknown = [_at(found, which) for which in found.compared if not found.knows_its_luck(which)]
    told = ""
    if lent:
        told = (
            " Searched once, so that the luck of search is borrowed from "
            f"{labels.listed(f'`{name}`' for name in donors)}: the losses {labels.listed(lent)}."
        )
    if unknown:
        told += f" The luck of search is not known, and seeds alone are counted: {labels.listed(unknown)}."
    return told


def _cut_short(found: AtRates, which: str) -> str:
    """That the runs at another rate had a lower limit of epochs too, with a space before it; "" where they had not."""
    records = found.made[which]
    limits = [each.meta["protocol"]["max_epochs"] for each in (records, found.made[CHOSEN])]
    if limits[0] >= limits[1]:
        return ""
    stopped = records.runs.loc[records.runs["kind"] == "rerun", "stopped"]
    return (
        f" The runs at that rate also had a limit of {limits[0]} epochs, which {100 * (stopped == 'limit').mean():.0f} "
        "% of the reruns reached, so the rate does not explain all of this."
    )


def too_high_in_short(found: Mapping[str, AtRates]) -> str:
    """How many gaps too high a rate changes by more than luck, study by study, in one sentence; "" where none was run.

    Where none does, and where runs were cut off as well, that is said.
    """
    high = {name: each for name, each in found.items() if TOO_HIGH in each.made}
    if not high:
        return ""
    ratios = [each.rate(TOO_HIGH) / each.rate(CHOSEN) for each in high.values()]
    changed, none = [], []
    for name, each in high.items():
        moved, pairs = each.moved(TOO_HIGH)
        if not moved:
            none.append(f"`{name}`")
        else:
            cut = " (whose runs were also cut off)" * bool(_cut_short(each, TOO_HIGH))
            what = " gaps between two losses" * (not changed)
            changed.append(f"{moved} of {pairs}{what} on `{name}`{cut}")
    rate = f"set {labels.span(ratios, '{:.0f}'.format)} times too high, it changes"
    if not changed:
        return f"The learning rate: {rate} no gap between two losses by more than luck."
    others = f", and none on {labels.listed(none)}" if none else ""
    return f"The learning rate matters too: {rate} {labels.listed(changed)} by more than luck{others}."


def levelled_cells(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """`levelled` as cells: a row a study, a column a number of trials; points."""
    rows = {records.name: levelled(records).map(labels.percent) for records in edition}
    table = pd.DataFrame.from_dict(rows, orient="index").fillna("–")
    heads = {count: f"{count} random" for count in table if count != "search"} | {"search": "whole search"}
    return table.rename(columns=heads).rename_axis("Study")


def levelled_sentence(records: StudyRecords) -> str:
    """How much closer tuning brings the methods, in a sentence."""
    found = levelled(records)
    if "1" not in found or not found["search"] > 0:
        return f"`{records.name}`: too few trials to say what tuning does to the differences."
    factor = found["1"] / found["search"]
    return (
        f"On `{records.name}` the methods differ by {labels.percent(found['1'])} points (standard deviation) with one "
        f"random setting each, after the whole search by {labels.percent(found['search'])}: "
        + (
            f"tuning takes {100 * (1 - 1 / factor):.0f} % of that away."
            if factor > 1
            else "tuning does not bring them closer."
        )
    )


def choosing_sentence(records: StudyRecords) -> str:
    """Whether validation chooses the loss that is best on test, in a sentence or two."""
    found = choosing(records)
    if np.isnan(found["rho"]):
        return f"`{records.name}`: too few methods with a search and a rerun to compare validation with test."
    told = (
        f"On `{records.name}` validation and test order the {found['n']} methods with a rank correlation of "
        f"{found['rho']:.2f}; choosing the loss by its best trial instead of by the test classes changes its test "
        f"MAP@R by {_change(found)} points."
    )
    within = found["within"]
    if np.isnan(within.low):
        return told
    better = "better" if within.low > 0 else "worse" if within.high < 0 else "not clearly better"
    return told + (
        f" Within a method, a search that ends higher on validation is {better} on test "
        f"(correlation {within.value:.2f} [{within.low:.2f}, {within.high:.2f}])."
    )
