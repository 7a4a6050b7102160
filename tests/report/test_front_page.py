"""The first page's picture and numbers, and the same picture as the README has it."""

import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pytest
from factories import fake_records

from dmlrc.report import editions, front_page, publish, published, style, svg, tables
from dmlrc.report.hypotheses.measures import gain
from dmlrc.report.significance import measures as significance

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture
def leads():
    return front_page.leads([fake_records(study="one", trials=3, reruns=3)])


def test_leads_are_those_of_the_tables(leads):
    value = leads.set_index(["by", "where"])["value"]
    claimed = tables.claimed_improvement(published.claims(), "contrastive")
    on = dict(list(published.musgrave_results().groupby("dataset")))
    for name in published.DATASETS:
        gains = claimed["gain"][claimed["dataset"] == name]
        assert value[front_page.PAPERS, name] == pytest.approx(100 * gains.mean())
        assert leads.set_index(["by", "where"])["papers"][front_page.PAPERS, name] == len(gains) == 7
        measured = tables.improvement(on[name], "contrastive")["concatenated"]
        assert value[front_page.CHECK, name] == pytest.approx(100 * measured)
    ours = tables.improvement(tables.accuracy(fake_records(study="one", trials=3, reruns=3)), "contrastive")
    assert value[front_page.MEASURED, "one"] == pytest.approx(100 * ours["concatenated"])
    mine = leads[leads["by"] == front_page.MEASURED].iloc[0]
    assert mine["low"] < mine["value"] < mine["high"]


def test_the_interval_of_the_best_newer_loss_holds_for_all_of_them_at_once():
    study = fake_records(study="one", trials=3, reruns=3)
    found = front_page.over_2006([study]).set_index(["metric", "over", "which"])
    for metric in ("precision_at_1", "map_at_r"):
        compared = significance.compare(study, metric=metric)
        newer = [name for name in compared.methods if name not in tables.CLASSICS]
        for base in tables.CLASSICS:
            alone = [gain(compared, [name], base) for name in newer]
            wider = [gain(compared, [name], base, 1 - 0.05 / len(newer)) for name in newer]
            assert all(one.low < other.low < other.high < one.high for one, other in zip(wider, alone, strict=True))
            means = compared.summary["mean"]
            best = found.loc[(metric, base, "best")]
            assert best["value"] == pytest.approx(100 * (means[newer].max() / means[base] - 1))
            assert best["low"] == pytest.approx(100 * max(one.low for one in wider))
            assert best["high"] == pytest.approx(100 * max(one.high for one in wider))
            assert found.loc[(metric, base, "mean"), "value"] == pytest.approx(
                100 * (means[newer].mean() / means[base] - 1)
            )
    cells = front_page.over_2006_cells(front_page.over_2006([study]))
    assert cells.shape == (2, 4)
    assert cells.map(lambda cell: " to " in cell).all(axis=None)
    once = front_page.over_2006_cells(front_page.over_2006([fake_records(study="one", trials=3, reruns=1)]))
    assert not once.map(lambda cell: "nan" in cell or "(" in cell).any(axis=None)
    assert front_page.percent_span(-0.04, 1) == "0.0 to +1.0 %"


def test_a_study_without_the_contrastive_loss_has_no_dot():
    assert set(front_page.leads([fake_records(missing=["contrastive"])])["by"]) == {front_page.PAPERS, front_page.CHECK}


def test_every_mark_stands_at_its_number_and_has_it_beside(leads):
    axis = front_page.claimed_and_measured(leads, front_page.ASKED).axes[0]
    places = dict(zip(axis.get_yticks(), (label.get_text() for label in axis.get_yticklabels()), strict=True))
    assert list(places.values()) == list(leads["where"])
    assert [bar.get_width() for bar in axis.patches] == pytest.approx(
        list(leads["value"][leads["by"] == front_page.PAPERS])
    )
    dots = [line for line in axis.get_lines() if line.get_marker() == "o"]
    assert [dot.get_xdata()[0] for dot in dots] == pytest.approx(list(leads["value"][leads["by"] != front_page.PAPERS]))
    assert [dot.get_markerfacecolor() for dot in dots] == ["white"] * 3 + [style.BLUE]  # theirs hollow, ours filled
    lines = [list(line.get_xdata()) for line in axis.get_lines() if len(line.get_xdata()) == 2]
    assert pytest.approx(list(leads[["low", "high"]].iloc[-1])) in lines
    texts = {round(text.xy[1], 6): text.get_text() for text in axis.texts if hasattr(text, "xy")}
    for place, row in zip(places, leads.itertuples(), strict=True):
        expected = f"{row.value:+.0f} %" if row.by == front_page.PAPERS else f"{row.value:+.1f} %"
        assert texts[round(place, 6)].startswith(expected.replace("-", "−"))


def words(drawing):
    """What can be read in a picture: its texts, and what pointing at a mark says."""
    return re.findall(r"<(?:text|title)\b[^>]*>([^<]*)<", drawing)


def test_the_readmes_picture_has_the_numbers_of_the_records(monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(ROOT))
    monkeypatch.delenv("DMLRC_RUNS", raising=False)
    path = ROOT / "book" / "_static" / "claimed-and-measured.svg"  # a copy of what the first page exports
    committed = path.read_text()
    leads = front_page.leads(editions.load_edition("published"))
    drawn = svg.to_svg(front_page.claimed_and_measured(leads, front_page.FOUND), path.stem)
    assert words(committed) == [publish.typeset(text) for text in words(drawn)]
    assert sum(" %" in each for each in words(committed)) == 2 * 9  # each mark's number, beside it and in its tip
    [line] = [each for each in (ROOT / "README.md").read_text().splitlines()[:20] if each.startswith("![")]
    assert line.endswith(f"]({path.relative_to(ROOT)})")
    values = leads.set_index("by")["value"]
    assert f" {values[front_page.PAPERS].min():.0f} to {values[front_page.PAPERS].max():.0f} % more " in line
    assert "within 2 % of it" in line
    assert values.drop(front_page.PAPERS).abs().max() < 2.05
