"""The pages of the methods, on made-up studies whose order, searches and prices are known."""

import re
from dataclasses import replace
from types import SimpleNamespace

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import pytest
from books import ROOT
from cases import loop
from docutils.utils.math.latex2mathml import tex2mathml
from factories import fake_records
from factories import searched_study as study
from test_hypotheses import EIGHT

from dmlrc import losses, papers
from dmlrc.data import batches
from dmlrc.errors import UsageError
from dmlrc.methods import LOSS_WEIGHTS_LR
from dmlrc.records import PRETRAINED
from dmlrc.report import claims, labels, publish, published, tables, titles
from dmlrc.report.hypotheses.measures import CUB
from dmlrc.report.method import figures, notes, others, page

BEST, SECOND = EIGHT[0], EIGHT[1]


@pytest.fixture
def found():
    """One study of eight methods; the first is far ahead, the others equal."""
    records = study(CUB, {name: 0.3 if name == BEST else 0.1 for name in EIGHT})
    untrained = {"method": PRETRAINED, "repetition": 0, "rerun": 0, "setting": "concatenated", "value": 0.08}
    rows = pd.DataFrame([untrained | {"metric": metric} for metric in ("map_at_r", "precision_at_1")])
    trials = records.trials.assign(state="complete")
    trials["params"] = [dict.fromkeys(notes.SHOWN[name].space, 0.5) for name in trials["method"]]
    records = replace(records, scores=pd.concat([records.scores, rows], ignore_index=True), trials=trials)
    return {titles.title(CUB): records}


def test_a_method_at_other_rates_and_depths(found, monkeypatch):
    (records,) = found.values()
    alone = study("cub200-2010-depths/squeezenet-embedder-alone", dict.fromkeys(EIGHT, 0.2))
    high = study(f"{CUB}/rate-tenfold", dict.fromkeys(EIGHT[1:], 0.05))
    monkeypatch.setattr(page.editions, "published_beside", lambda edition: [alone])
    monkeypatch.setattr(page.editions, "experiment_of", lambda main, name: high if name == "rate-tenfold" else None)
    monkeypatch.setattr(page.editions, "with_searched_rates", lambda main: None)
    cells = page.elsewhere([records], SECOND)
    assert list(cells.index) == ["CUB-200 (2010), at ten times the rate", "CUB-200 (2010), embedder alone"]
    assert cells["MAP@R"].str.startswith(("5.", "4.9", "20.", "19.9")).all()
    assert set(cells["untrained trunk"]) == {"–"}
    assert list(page.elsewhere([records], BEST).index) == ["CUB-200 (2010), embedder alone"]
    searched = study(f"{CUB}/rates-searched", dict.fromkeys(EIGHT, 0.1), search=0.02)
    monkeypatch.setattr(page.editions, "with_searched_rates", lambda main: searched)
    row = page.elsewhere([records], BEST).loc["CUB-200 (2010), rate searched in 100 trials"]
    assert row["reruns"] == "9"
    half = tables.by_method(tables.accuracy(searched))["ci95"][BEST]  # of search and seed
    assert row["MAP@R"].endswith(f"± {100 * half:.2f}")


@loop("name", notes.SHOWN)
def test_every_searched_hyperparameter_stands_in_the_formulas(name):
    note = notes.NOTES[name]
    assert set(note.symbols) == set(notes.SHOWN[name].space) - {LOSS_WEIGHTS_LR}
    for symbol in note.symbols.values():
        assert any(symbol in formula for formula in note.formulas)


def test_the_rate_of_the_weights_of_a_loss_is_among_what_was_searched():
    assert "and the rate of the loss's weights." in page.formulas(notes.SHOWN["arcface"])
    assert "rate of the loss" not in page.formulas(notes.SHOWN["triplet"])


def test_every_fixed_setting_of_another_paper_stands_in_the_formulas():
    everywhere = {name for note in notes.OTHERS.values() for name in note.symbols}
    for section, note in notes.OTHERS.items():
        of_rows = {name for _, method in others.section_rows(section) for name in method.settings}
        settings = of_rows - {LOSS_WEIGHTS_LR, "proxy_std"}  # how the loss's weights train and begin
        assert set(note.symbols) <= settings, section
        assert settings <= everywhere, section  # the regularised rows have those of the plain ones too
        for symbol in note.symbols.values():
            assert symbol in " ".join((*note.formulas, note.where)), section


@loop("name", [*notes.SHOWN, *notes.OTHERS])
def test_every_formula_can_be_shown(name):
    searched = name in notes.SHOWN
    text = publish._printed(page.formulas(notes.SHOWN[name]) if searched else page.noted(notes.OTHERS[name], "Fixed"))
    shown = re.findall(r"\$\$\n(.*?)\n\$\$", text, re.DOTALL)
    assert len(shown) == len((notes.NOTES | notes.OTHERS)[name].formulas)
    for formula in shown:
        assert "<math" in tex2mathml(formula, as_block=True)
    for formula in re.findall(r"(?<!\$)\$([^$\n]+)\$(?!\$)", text):
        assert "<math" in tex2mathml(formula)


def test_what_notes_name_exists():
    papers = set(published.claims()["paper"]) | set(published.claims_after_2019()["paper"])
    ids = {claim.id for claim in claims.CLAIMS}
    for name, note in notes.NOTES.items():
        assert set(note.claimed_by) <= papers, name
        assert set(note.claims) <= ids, name
    assert list(notes.NOTES) == list(notes.SHOWN)


def test_every_loss_of_the_papers_is_on_one_page():
    searched = {method.loss for method in notes.SHOWN.values()}
    listed = [name for note in notes.OTHERS.values() for name in note.losses]
    assert len(listed) == len(set(listed))
    assert not set(listed) & searched
    trained = {method.loss for paper in papers.ALL for method in paper.methods}
    assert trained <= set(listed) | searched == set(notes.ADDRESSES)
    assert set(listed) <= set(losses.REGISTRY)
    for section in notes.OTHERS:
        assert others.section_rows(section), section
        code = others.loss_source(section)
        for name in notes.OTHERS[section].losses:
            assert f"class {losses.REGISTRY[name].__name__}(" in code
    assert not notes.NOTES.keys() & notes.OTHERS.keys()


def test_every_section_of_the_other_losses_stands_in_the_notebook_with_its_anchor():
    cells = nbformat.read(ROOT / "notebooks" / f"{notes.OTHERS_PAGE}.ipynb", as_version=4).cells
    for section, note in notes.OTHERS.items():
        heading = f"({notes.section_anchor(section)})=\n## {note.label}"
        (at,) = (place for place, cell in enumerate(cells) if cell.source == heading)
        assert cells[at + 1].source == f'show("{section}")'


def test_every_sampler_has_its_section_and_its_code():
    assert tuple(others.SAMPLERS) == batches.SAMPLERS
    cells = nbformat.read(ROOT / "notebooks" / f"{notes.OTHERS_PAGE}.ipynb", as_version=4).cells
    for name, sampler in others.SAMPLERS.items():
        heading = f"(sampler-{name.replace('_', '-')})=\n### {sampler.label}"
        (at,) = (place for place, cell in enumerate(cells) if cell.source == heading)
        assert cells[at + 1].source == f'show_sampler("{name}")'
        assert sampler.draws in others.sampler_description(name)
        source = others.sampler_source(name)
        assert any(text in source for text in ("def __next__", "def draw", "_distances = staticmethod"))


def test_a_claim_names_the_losses_that_it_is_about():
    assert notes.losses_of_claim("fehervari-npairs-average") == [
        ("N-pairs", "18_losses_of_the_other_papers.html#loss-n-pairs")
    ]
    assert next(label for label, _ in notes.losses_of_claim("fehervari-nca-over-triplet")) == "ProxyNCA"
    assert notes.losses_of_claim("musgrave-similar") == []
    known = {claim.id for claim in claims.CLAIMS}
    assert {each for note in notes.OTHERS.values() for each in note.claims} <= known


def test_the_rows_of_a_loss_in_the_tables_of_the_other_papers():
    table = others.ROTH
    rows = [("angular", 0.5), ("histogram", 0.4), ("contrastive", 0.6), (PRETRAINED, 0.9)]
    means = pd.DataFrame(rows, columns=["method", "mean"]).set_index("method").assign(ci95=0.01, n=4)
    made = replace(table, means=lambda records: means)
    nothing = pd.DataFrame({"method": [], "state": [], "kind": [], "stopped": [], "repetition": [], "number": []})
    records = SimpleNamespace(
        name="grocery-quick/roth2020",
        scores=pd.DataFrame({"method": means.index}),
        runs=nothing,
        trials=nothing,
        reruns=pd.DataFrame({"method": ["snr"], "state": ["diverged"], "repetition": [0], "rerun": [0]}),
        meta=fake_records(reruns=1).meta,
    )
    found = {table.experiment: {"grocery-quick": records}}
    names = ("angular", "n_pairs", "snr")
    angular, absent, diverged = (next(each for each in table.methods if each.name == name) for name in names)
    cells = others.row_cells([(made, angular), (made, absent), (made, diverged)], found)
    assert list(cells.columns) == ["grocery-quick", "batch", "fixed settings"]  # what was not run has no column
    best = others.best_row(made, records)
    assert (best["mean"], best["lift"]) == pytest.approx((0.6, 0.5 - 0.9))
    assert cells.loc["Lift by training (Roth et al. 2020)", "grocery-quick"] == "-40.00"  # of its rows not shown too
    assert cells.loc["Angular (Roth et al. 2020)", "grocery-quick"] == "50.0 ± 1.0 (2 of 3) ↓"
    assert cells.loc["Angular (Roth et al. 2020)", "batch"] == "32 x 2 (56 x 2)"  # as run, and the paper's
    assert cells.loc["Npair (Roth et al. 2020)", "grocery-quick"] == "not run"
    assert cells.loc["SNR (D) (Roth et al. 2020)", "grocery-quick"] == "diverged"


def test_the_first_row_of_a_table_and_how_many_tie_with_it(monkeypatch):
    rows = [("angular", 0.5), ("histogram", 0.4), ("contrastive", 0.6), (PRETRAINED, 0.9)]
    means = pd.DataFrame(rows, columns=["method", "mean"]).set_index("method").assign(ci95=0.01, n=4)
    main = SimpleNamespace(name="grocery-quick", meta={"dataset": "grocery"})
    monkeypatch.setattr(others.editions, "experiment_of", lambda name, experiment: SimpleNamespace())
    made = {"sure": means, "near": means.assign(ci95=0.12), "once": means.assign(ci95=np.nan)}
    for name, ties in {"sure": 0, "near": 1, "once": np.nan}.items():
        table = replace(others.ROTH, means=lambda records, name=name: made[name])
        monkeypatch.setattr(others, "TABLES", (table,))
        numbers = others.numbers([main])
        assert numbers["grocery.roth2020.first"] == "Contrastive (D)"
        np.testing.assert_equal(numbers["grocery.roth2020.tied"], ties)
        assert numbers["grocery.roth2020.lift"] == pytest.approx(-40)


def test_rows_of_the_other_papers_lead_to_a_page_or_a_section():
    links = others.FEHERVARI.links()
    assert links["ProxySoftmax"] == "method_normalized_softmax.html#method-normalized-softmax"
    assert links["Prototype Loss"] == "18_losses_of_the_other_papers.html#loss-prototypical"
    assert set(others.searched_links().values()) <= set(notes.LINKS.values())


def test_every_system_of_the_papers_goes_by_a_title_and_leads_to_its_loss():
    cells = others.system_cells()
    assert len(cells) == sum(len(paper.methods) for paper in papers.ALL[1:])
    assert not cells.map(lambda text: "_" in re.sub(r' href="[^"]*"', "", text)).any(axis=None)
    loss = cells.loc[("Fehervari et al. 2019", "ProxyNCA"), "loss"]
    assert loss == f'<a href="{notes.ADDRESSES["proxy_nca_original"]}">ProxyNCA as published</a>'
    assert cells.loc[("Roth et al. 2020", "ArcFace"), "settings"].endswith("rate of the loss's weights 5·10⁻⁴")


def test_a_method_without_a_page_is_named_with_the_nearest():
    assert page.method_of_page("arcface").label == "ArcFace"
    with pytest.raises(UsageError, match=r"contrastiv.*contrastive"):
        page.method_of_page("contrastiv")


def test_the_place_of_the_best_and_of_the_others(found):
    [title] = found
    cells, other = page.standing_cells(found, BEST).loc[title], page.standing_cells(found, SECOND).loc[title]
    assert cells[["rank", "tied with the best"]].tolist() == [f"1 of {len(EIGHT)}", "yes"]
    assert int(other["rank"].split()[0]) >= 2
    assert other["tied with the best"] == "no"
    assert other["the best"].endswith(notes.SHOWN[BEST].label)
    precision = tables.mean_of(tables.accuracy(found[title]), BEST)
    assert cells["P@1"].startswith(labels.percent(precision))


def test_a_method_at_a_glance(found, monkeypatch):
    costs = pd.DataFrame({"search_seconds": 90.0}, index=EIGHT)
    monkeypatch.setattr(tables, "cost", lambda records: costs)
    glance = page.glance(found, BEST)
    assert glance[["place", "behind", "tied with the best"]].iloc[0].tolist() == [f"1 of {len(EIGHT)}", "0.0", "yes"]
    assert page.glance(found, SECOND)["tied with the best"].tolist() == ["no"]
    values = page.finished_trials(found, BEST)["value"]
    assert glance["median trial"].iloc[0] == f"{100 * values.median() / values.max():.0f} %"
    assert glance["a search, minutes"].iloc[0] == "2"
    [means] = (frame["mean"] for frame in page.standings(found).values())
    over = labels.signed(means.drop(PRETRAINED).mean() - means[PRETRAINED], 2, "")
    assert glance["lift by training"].tolist() == [over]
    assert page.standing_cells(found, BEST)["lift by training"].tolist() == [over]


def test_gains_are_over_the_untrained_trunk(found):
    [records] = found.values()
    gains = page.gains_over_untrained(page.standings(found)).set_index("method")
    scores = records.scores[(records.scores["metric"] == "map_at_r") & (records.scores["setting"] == "concatenated")]
    means = scores.groupby("method")["value"].mean()
    assert PRETRAINED not in gains.index
    for name in EIGHT:
        assert gains.loc[name, "mean"] == pytest.approx(means[name] - means[PRETRAINED])


def test_a_study_without_the_method_is_left_out(found):
    [records] = found.values()
    assert list(page.records_of([records], BEST)) == list(found)
    assert page.records_of([records], next(name for name in notes.SHOWN if name not in EIGHT)) == {}


def made_trials(method):
    """Two searches of three trials each; the second trial wins the first search, the third the second one."""
    rng = np.random.default_rng(0)
    rows = [
        {"repetition": repetition, "value": value, "study": "Made", "best": best}
        | {name: rng.uniform(space.low, space.high) for name, space in method.space.items()}
        for repetition, values in enumerate(((0.1, 0.4, 0.2), (0.1, 0.2, 0.3)))
        for value, best in zip(values, np.equal(values, max(values)), strict=True)
    ]
    return pd.DataFrame(rows)


def test_the_trials_of_a_method_and_who_won(found):
    [records] = found.values()
    tried = page.finished_trials(found, BEST)
    own = records.trials[(records.trials["method"] == BEST) & (records.trials["state"] == "complete")]
    assert len(tried) == len(own)
    assert tried.groupby("repetition")["best"].sum().eq(1).all()
    best = tried[tried["best"]].set_index("repetition")["value"]
    assert best.to_dict() == own.groupby("repetition")["value"].max().to_dict()


def test_the_winners_stand_below_the_ranges_and_ends_are_marked():
    method = notes.SHOWN["arcface"]
    tried = made_trials(method)
    tried.loc[1, "margin"] = method.space["margin"].high
    cells, marks = page.winner_cells(tried, method)
    assert list(cells.index) == ["searched", "Made, search 1", "Made, search 2"]
    assert cells.loc["searched", "margin"] == "0 to 90"
    assert "logarithmic" in cells.loc["searched", "rate of the loss's weights"]
    assert cells.loc["Made, search 1", "validation MAP@R"] == "40.00"
    assert marks.loc["Made, search 1", "margin"] == "best"
    assert marks.loc["searched"].eq("").all()


def test_one_starts_at_the_setting_of_the_best_trial():
    method = notes.SHOWN["arcface"]
    tried = made_trials(method)
    cells = page.start_here(tried, method)
    assert list(cells.columns) == ["Made", "searched"]
    assert cells.loc["margin"].tolist() == [labels.number(tried.loc[1, "margin"]), "0 to 90"]


def test_the_rates_of_a_method(found, monkeypatch):
    best = pd.DataFrame({BEST: [0.1, 0.3, 0.2], SECOND: [0.5, 0.4, 0.2]}, index=[1e-6, 1e-5, 1e-4])
    monkeypatch.setattr(page.rates, "recorded_grids", lambda edition: {"Made": None})
    monkeypatch.setattr(page.rates, "best_trials", lambda grid: best)
    monkeypatch.setattr(page.rates, "best_rate", lambda best: 1e-5)
    assert page.rate_cells([], BEST).loc["Made"].tolist() == ["10⁻⁵", "10⁻⁵", "10⁻⁶", "20.0"]
    assert page.rate_cells([], SECOND).loc["Made", "best for it"] == "10⁻⁶ (end of the grid)"
    assert page.rate_cells([], EIGHT[2]).empty


def test_the_idea_of_a_loss_names_its_source():
    for name, method in notes.SHOWN.items():
        assert f"`{method.reference}`" in notes.NOTES[name].idea
    for note in notes.OTHERS.values():
        assert f"`{note.reference}`" in note.idea


def test_what_a_paper_claims_stands_beside_what_was_measured():
    table = page.claimed_scores(notes.SHOWN["margin"])
    row = table[table["data set"] == "CUB200"].iloc[0]
    assert row["claimed R@1"] == "63.6"
    paper = published.musgrave_results().set_index(["dataset", "method", "setting", "metric"])["mean"]
    assert row["the Reality Check"] == f"{100 * paper['CUB200', 'margin', 'concatenated', 'precision_at_1']:.1f}"
    assert page.claimed_scores(notes.SHOWN["arcface"]).empty
    assert page.MEASURED not in page.claimed_scores(notes.SHOWN["circle"])  # proposed after the Reality Check


def test_a_claim_stands_on_the_pages_of_the_methods_that_it_is_about(found):
    cells, _ = page.claim_verdicts(list(found.values()), notes.SHOWN["cosface"])
    assert len(cells) == 1
    assert "large-margin cosine loss" in cells.index[0]
    assert page.claim_verdicts(list(found.values()), notes.SHOWN["circle"]) is None


def test_rows_of_a_table_lead_to_the_pages(tmp_path):
    names = pd.Index(["ArcFace", "mine <b>"], name="Method")
    cells = pd.DataFrame({"MAP@R": ["1", "2"]}, index=names)
    marks = pd.DataFrame({"MAP@R": ["best", ""]}, index=names)
    with publish.collected(tmp_path) as shown:
        publish.table("rows", cells, "Rows.", marks=marks, links=notes.LINKS)
    assert '<a href="method_arcface.html#method-arcface">ArcFace</a></th>' in shown[0]
    assert "mine &lt;b&gt;</th>" in shown[0]
    assert "<b>1</b>" in shown[0]
    assert "method_arcface" not in (tmp_path / "rows.tex").read_text() + (tmp_path / "rows.csv").read_text()


def test_figures_show_every_method_and_every_trial(found):
    method = notes.SHOWN[BEST]
    drawing = figures.gains_figure(page.gains_over_untrained(page.standings(found)), method)
    others, own = drawing.axes[0].collections
    assert (len(others.get_offsets()), len(own.get_offsets())) == (len(EIGHT) - 1, 1)
    method = notes.SHOWN["arcface"]
    drawing = figures.hyperparameters_figure(made_trials(method), method)
    assert len(drawing.axes) == len(method.space)
    dots, rings = drawing.axes[0].collections
    assert (len(dots.get_offsets()), len(rings.get_offsets())) == (6, 2)
    assert dots.get_offsets()[:, 1].max() == pytest.approx(100)
    plt.close("all")
