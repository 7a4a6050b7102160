"""What decides a ranking, as the chapter prints it: cells of tables, and sentences with their numbers."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dmlrc.records import StudyRecords
from dmlrc.report import labels, statistics
from dmlrc.report.decides.measures import Part, TwoRates, choosing, levelled


def drawable(found: Sequence[Part]) -> list[Part]:
    """The parts of which it is known how they move methods against one another: those of more than one method."""
    return [part for part in found if not np.isnan(part.against.value)]


def part_cells(found: Sequence[Part]) -> pd.DataFrame:
    """Parts as cells; points."""
    rows = {
        part.name: {
            "against one another": labels.percent(part.against.value) or "one method only",
            "interval": _interval(part),
            "together": labels.percent(part.together) or "–",
            "levels": f"{part.levels:,}",
            "methods": str(part.methods),
            "classes": part.on,
        }
        for part in found
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("Part")


def _interval(part: Part) -> str:
    if np.isnan(part.against.value):
        return "–"
    return f"{labels.percent(part.against.low)} to {labels.percent(part.against.high)}"


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
        }
        for part in found
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("part")


def parts_sentence(records: StudyRecords, found: Sequence[Part]) -> str:
    """Which parts move the methods against one another more than the losses differ, in a sentence or two."""
    by_name = {part.name: part for part in drawable(found)}
    if "loss" not in by_name or len(by_name) < 2:
        return f"`{records.name}`: too little was repeated or varied to say what decides its ranking."
    own = by_name.pop("loss").against.value
    above = [part for part in by_name.values() if part.against.value >= own]
    first = f"On `{records.name}` the losses differ by {labels.percent(own)} points of MAP@R (standard deviation). "
    if not above:
        most = next(iter(by_name.values()))
        return first + (
            f"Nothing else moves them as much against one another; the next is the {most.name}, by "
            f"{labels.percent(most.against.value)} points."
        )
    named = " and ".join(f"the {_aside(part.name)} by {labels.percent(part.against.value)}" for part in above)
    return first + f"Other things move them as much or more against one another: {named}."


def section_sentence(records: StudyRecords, found: Sequence[Part]) -> str:
    """`parts_sentence` and `together_sentence` of a study, which is named once."""
    return f"{parts_sentence(records, found)} {together_sentence(records, found, named=False)}".strip()


def parts_in_short(found: Mapping[str, Sequence[Part]]) -> str:
    """What moves the methods more than the losses differ, study by study, in one sentence; "" where nothing is known.

    found: study -> `measures.parts`.
    """
    told = {}
    for name, parts in found.items():
        by_name = {part.name: part.against.value for part in drawable(parts)}
        own = by_name.pop("loss", np.nan)
        if by_name and own == own:
            above = [f"the {_aside(other)}" for other, value in by_name.items() if value >= own]
            told[name] = labels.listed(above) or "nothing"
    return f"Larger than the differences between the losses are those made by {labels.by_study(told)}." if told else ""


def _aside(part: str) -> str:
    """A part's name for a list: what stands behind its comma in brackets.

    >>> _aside("seed"), _aside("learning rate, the whole grid")
    ('seed', 'learning rate (the whole grid)')
    """
    name, comma, rest = part.partition(", ")
    return f"{name} ({rest})" if comma else name


def levelled_in_short(edition: Sequence[StudyRecords]) -> str:
    """The share of the differences that tuning takes away, study by study, in one sentence; "" where none is known."""
    told = {}
    for records in edition:
        found = levelled(records)
        if "1" in found and found["search"] > 0:
            told[records.name] = f"{100 * max(0, 1 - found['search'] / found['1']):.0f} %"
    return (
        f"A whole search takes away part of the differences between methods: {labels.by_study(told)}." if told else ""
    )


def choosing_in_short(edition: Sequence[StudyRecords]) -> str:
    """What choosing a loss by validation costs on test, study by study, in one sentence; "" where it is not known."""
    told = {}
    for records in edition:
        found = choosing(records)
        if not np.isnan(found["rho"]):
            told[records.name] = "nothing" if found["regret"] < 5e-5 else f"{labels.percent(found['regret'])} points"
    return f"Choosing the loss by validation costs {labels.by_study(told)}." if told else ""


def together_sentence(records: StudyRecords, found: Sequence[Part], named: bool = True) -> str:
    """The part that moves all methods together most, and how little that changes their order; "" where none does.

    named: whether it says of which study that holds.
    """
    moving = [part for part in found if not np.isnan(part.together)]
    if not moving:
        return ""
    most = max(moving, key=lambda part: part.together)
    together, against = labels.percent(most.together), most.against.value
    begin = f"On `{records.name}` changing" if named else "Changing"
    told = f"{begin} the {most.name} moves all methods together by {together} points"
    return f"{told}." if np.isnan(against) else f"{told}, and against one another by {labels.percent(against)}."


def two_rates_cells(found: TwoRates) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two rates as cells and marks: MAP@R in percent, the best in bold; below the untrained trunk with its mark."""
    rates = dict(zip(("chosen", "high"), map(labels.rate, found.rates), strict=True))
    columns, marks = {}, {}
    for which, rate in rates.items():
        values = found.scores[which]
        half = (found.scores[f"{which}_high"] - found.scores[f"{which}_low"]) / 2
        texts = pd.Series(map(labels.percent, values, half), values.index)
        columns[f"at {rate}"] = labels.against_untrained(texts, values, found.untrained)
        marks[f"at {rate}"] = values.eq(values.max()).map({True: "best", False: ""})
    gained = found.scores["chosen"] - found.scores["high"]
    columns["gained"] = gained.map(lambda value: labels.signed(value, 2, ""))
    cells, marked = pd.DataFrame(columns), pd.DataFrame(marks).reindex(columns=list(columns), fill_value="")
    names = [labels.method_label(name) for name in cells.index]
    return tuple(frame.set_axis(names).rename_axis("Method") for frame in (cells, marked))


def two_rates_sentence(found: TwoRates) -> str:
    """How far the methods are apart on the test classes at each rate, and how much of their order the rate makes."""
    (chosen, high), scores = map(labels.rate, found.rates), found.scores
    changed, pairs = statistics.turned(scores["chosen"], scores["high"])
    apart = {which: labels.percent(np.ptp(scores[which])) for which in ("chosen", "high")}
    below = {which: int((scores[which] < found.untrained).sum()) for which in ("chosen", "high")}
    told = (
        f"On the test classes of `{found.chosen.name}`, {len(scores)} losses lie {apart['high']} points apart at "
        f"{high}, and {apart['chosen']} at {chosen}; {changed} of {pairs} pairs change places."
    )
    if np.isnan(found.untrained):
        return told
    return f"{told} Below the untrained trunk are {below['high']} of them at {high}, {below['chosen']} at {chosen}."


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
    cost = "nothing" if found["regret"] < 5e-5 else f"{labels.percent(found['regret'])} points of test MAP@R"
    told = (
        f"On `{records.name}` validation and test order the {found['n']} methods with a rank correlation of "
        f"{found['rho']:.2f}; choosing the loss by its best trial costs {cost}."
    )
    if np.isnan(found["within"]):
        return told
    return told + (
        f" Inside a method, a search that ends higher on validation is {_agreement(found['within'])} on test "
        f"(correlation {found['within']:.2f})."
    )


def _agreement(correlation: float) -> str:
    return "better" if correlation > 0.5 else "somewhat better" if correlation > 0.2 else "not reliably better"
