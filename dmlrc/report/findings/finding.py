"""What a finding is: a discrepancy, its size in a few words, and the tables and figures that show it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pandas as pd
from matplotlib.figure import Figure

from dmlrc.report import labels, publish


@dataclass(frozen=True)
class Table:
    """A table of a finding; its label is `finding-<name>`. data: the numbers behind the cells. remark: what to see."""

    name: str
    cells: pd.DataFrame
    data: pd.DataFrame
    caption: str
    remark: str
    wrap: bool = False

    def show(self) -> None:
        publish.table(f"finding-{self.name}", self.cells, self.caption, data=self.data, wrap=self.wrap)
        publish.text(self.remark)


@dataclass(frozen=True)
class Drawing:
    """A figure of a finding, as `Table`."""

    name: str
    figure: Figure
    caption: str
    remark: str

    def show(self) -> None:
        publish.figure(f"finding-{self.name}", self.figure, self.caption, self.remark)
        publish.text(self.remark)


@dataclass(frozen=True)
class Pair:
    """A score as the fault makes it and as it should be, fractions. what: of what it is the score."""

    what: str
    wrong: float
    right: float

    @property
    def size(self) -> float:
        return abs(self.wrong - self.right)


@dataclass(frozen=True)
class Finding:
    """One discrepancy.

    name: also of its first table or figure. seen: the paper or public code that has it. effect: what it looks like,
    and its size, in a few words. remedy: what to do instead. exhibits: none where no records show it. takeaway: the
    sentence for the top of the chapter, of the few that have one. scalars: the named numbers that the chapter records.
    pair: of those whose effect is two scores in percent.
    """

    name: str
    title: str
    seen: str
    effect: str
    remedy: str
    exhibits: tuple[Table | Drawing, ...]
    takeaway: str = ""
    scalars: Mapping[str, float] = field(default_factory=dict)
    pair: Pair | None = None

    def show(self, *names: str) -> None:
        """Show the exhibits of these names; default all."""
        if not self.exhibits:
            publish.text(f"{self.title}: not run, since none of these studies has the records that show it.")
        for exhibit in self.exhibits:
            if exhibit.name in (names or [each.name for each in self.exhibits]):
                exhibit.show()


def percent(fraction: float, digits: int = 1) -> str:
    """A fraction in percent, with one digit where a sentence needs no more."""
    return labels.percent(fraction, digits=digits)


def cells(
    frame: pd.DataFrame, heads: Mapping[str, str], fractions: Collection[str] = (), index: str = "", digits: int = 1
) -> pd.DataFrame:
    """The columns of `heads` under their printed names, as text. index: what stands over the rows' names.

    Fractions in percent with so many digits, other real numbers as `labels.number` tells them, truth values yes and no.

    >>> frame = pd.DataFrame({"a": [0.5, float("nan")], "b": [1.0, 2e-9]})
    >>> cells(frame, {"a": "A, %", "b": "B"}, ["a"]).to_numpy().tolist()
    [['50.0', '1'], ['–', '2·10⁻⁹']]
    """
    text = {}
    for column, head in heads.items():
        values = frame[column]
        if column in fractions:
            text[head] = values.map(lambda value: percent(value, digits)).replace("", "–")
        elif pd.api.types.is_bool_dtype(values):
            text[head] = values.map({True: "yes", False: "no"})
        elif pd.api.types.is_float_dtype(values):
            text[head] = values.map(labels.number).replace("nan", "–")
        elif pd.api.types.is_integer_dtype(values):
            text[head] = values.map("{:,}".format)
        else:
            text[head] = values.map(str)
    table = pd.DataFrame(text)
    return table.rename_axis(index) if index else table
