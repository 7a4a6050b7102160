"""The hypotheses on made-up studies: each is kept on one, not kept on another, open or not tested on a third."""

import re
from dataclasses import replace

import numpy as np
import pytest
from factories import searched_study as study

from dmlrc import studies
from dmlrc.records import shared
from dmlrc.report import published
from dmlrc.report.hypotheses import measures, page
from dmlrc.report.hypotheses.measures import CARS, CUB, GROCERY, KEPT, NOT_KEPT, NOT_TESTED, OPEN, Bounds, Finding
from dmlrc.report.statistics import Estimate

METHODS = [method.name for method in studies.get(CUB).methods]
EIGHT = [method.name for method in studies.get(measures.EVERYTHING).methods]


def flat(spread=0.01, methods=METHODS):
    """Scores of the methods, evenly spread over a range around 0.4."""
    return dict(zip(methods, 0.4 + spread * np.linspace(-0.5, 0.5, len(methods)), strict=True))


class TestTheRule:
    @pytest.mark.parametrize(
        ("low", "high", "verdict"),
        [(0.6, 0.9, KEPT), (0.1, 0.4, NOT_KEPT), (0.4, 0.9, OPEN), (np.nan, 0.9, NOT_TESTED)],
    )
    def test_by_where_the_interval_lies(self, low, high, verdict):
        assert Bounds(low=0.5).judge(Estimate(0.7, low, high, 12)) == verdict
        assert Bounds(high=-0.5).judge(Estimate(-0.7, -high, -low, 12)) == verdict

    def test_all_must_be_kept_and_one_that_is_not_is_enough(self):
        def verdict(*verdicts):
            return measures.all_of(Finding("", Estimate(0, 0, 0, 1), Bounds(), each) for each in verdicts)

        assert verdict(KEPT, KEPT) == KEPT
        assert verdict(KEPT, OPEN) == OPEN
        assert verdict(KEPT, OPEN, NOT_KEPT) == NOT_KEPT
        assert verdict(KEPT, NOT_TESTED) == NOT_TESTED
        assert verdict(NOT_TESTED, NOT_KEPT) == NOT_KEPT
        assert verdict() == NOT_TESTED
        kept = Finding("", Estimate(0, 0, 0, 1), Bounds(), KEPT)
        assert measures.all_of([kept], wanted=2) == NOT_TESTED

    def test_the_regions_are_those_of_the_preregistration(self, recorded):
        for name in (CUB, CARS, GROCERY):
            recorded[name] = study(name, flat())
        for name in (*measures.LAST_BLOCK.values(), *measures.EMBEDDER.values(), measures.EVERYTHING):
            recorded[name] = study(name, flat(methods=EIGHT))
        recorded[measures.TOO_HIGH[CUB]] = study(measures.TOO_HIGH[CUB], flat(methods=EIGHT))
        recorded[measures.TOO_HIGH[CARS]] = study(measures.TOO_HIGH[CARS], flat())
        with shared():
            judged = measures.judged_hypotheses()
        regions = {
            each.hypothesis: {(finding.region.low, finding.region.high) for finding in each.findings} for each in judged
        }
        inf = np.inf
        assert regions == {
            "H1": {(0.53, inf)},
            "H2": {(-inf, 0.5)},
            "H3": {(-inf, 0.05)},
            "H4": {(2, inf)},
            "H5": {(-inf, 30)},
            "H6": {(2, inf)},
            "H7": {(0.5, inf)},
            "H8": {(0, 0)},
            "H9": {(-inf, 1)},
        }
        assert all(not each.missing for each in judged)


class TestWhatCounts:
    def test_repetitions_that_all_methods_have_finished(self, recorded):
        recorded[CUB] = study(CUB, flat())
        reruns = recorded[CUB].reruns
        late = (reruns["method"] == "triplet") & (reruns["repetition"] == 2) & (reruns["rerun"] == 2)
        recorded[CUB] = replace(recorded[CUB], reruns=reruns[~late])
        found = measures.counted_records(CUB)
        assert (found.finished, found.wanted) == (2, 3)
        assert set(found.records.scores["repetition"]) == set(found.records.trials["repetition"]) == {0, 1}
        assert found.missing == (f"{CUB}: 2 of 3",)
        judged = measures.newer_gain_little(CUB)
        assert judged.missing == found.missing
        assert (page.hypothesis_cells([judged])["verdict"] == f"{judged.verdict} so far").all()

    def test_a_repetition_of_a_method_with_fewer_than_two_scores_is_left_out(self, recorded):
        recorded[CUB] = study(CUB, flat())
        scores = recorded[CUB].scores
        lost = (scores["method"] == "triplet") & (scores["repetition"] == 1) & (scores["rerun"] > 0)
        recorded[CUB] = replace(recorded[CUB], scores=scores[~lost])
        kept = measures.counted_records(CUB).records.scores
        assert set(kept[kept["method"] == "triplet"]["repetition"]) == {0, 2}
        assert set(kept[kept["method"] == "margin"]["repetition"]) == {0, 1, 2}

    def test_without_records_nothing_is_tested(self, recorded):
        judged = measures.judged_hypotheses()
        assert {each.verdict for each in judged} == {NOT_TESTED}
        assert measures.recorded_hypotheses() == []
        assert len(page.hypothesis_cells(judged)) == len(judged)
        assert set(page.short_cells(judged)["Cars crops"]) == {NOT_TESTED}
        assert page.beside_cells().empty

    def test_where_nobody_has_searched_twice_luck_is_not_known_and_no_range_is_judged(self, recorded):
        for name in (measures.EMBEDDER[CUB], measures.LAST_BLOCK[CUB]):
            recorded[name] = study(name, flat(methods=EIGHT))
        judged = measures.depth_levels(CUB)
        assert (judged.verdict, judged.findings) == (NOT_TESTED, ())
        assert "no study on this data has searched twice" in judged.missing

    def test_one_search_borrows_from_the_same_data_first(self, recorded):
        recorded[CARS] = study(CARS, flat(), search=0.01)
        recorded[CUB] = study(CUB, flat(), search=0.001)
        name = measures.EMBEDDER[CUB]
        recorded[name] = study(name, flat(methods=EIGHT))
        compared = measures.comparison_of(measures.counted_records(name), measures.lenders(CUB))
        assert compared.donor == CUB
        compared = measures.comparison_of(measures.counted_records(name), measures.lenders(measures.EVERYTHING))
        assert compared.donor == CARS


def test_h1_needs_all_three_published_orders(recorded):
    tables = published.musgrave_results()
    theirs = tables[(tables["setting"] == "concatenated") & (tables["metric"] == "map_at_r")]
    order = theirs[theirs["dataset"] == "CUB200"].set_index("method")["mean"].reindex(METHODS)
    means = dict(zip(METHODS, order.fillna(order.mean()), strict=True))
    recorded[CUB] = study(CUB, means, search=0, seed=0)
    judged = measures.order_is_predicted(CUB)
    verdicts = {finding.what: finding.verdict for finding in judged.findings}
    assert verdicts["rank correlation with CUB200"] == KEPT
    assert judged.findings[0].estimate.value == pytest.approx(1)
    assert judged.findings[0].estimate.n == 12
    assert judged.verdict != KEPT  # the other tables have other orders
    recorded[CUB] = study(CUB, {name: 1 - value for name, value in means.items()}, search=0, seed=0)
    assert measures.order_is_predicted(CUB).verdict == NOT_KEPT


@pytest.mark.parametrize(("ratio", "verdict"), [(0.2, KEPT), (0.5, OPEN), (1.0, NOT_KEPT)])
def test_h2_is_the_ratio_of_two_ranges(recorded, ratio, verdict):
    recorded[CARS] = study(CARS, flat(ratio * 0.1), search=0.004)
    recorded[measures.TOO_HIGH[CARS]] = study(measures.TOO_HIGH[CARS], flat(0.1))
    judged = measures.rate_makes_ranking(CARS)
    assert judged.verdict == verdict
    assert judged.findings[0].estimate.value == pytest.approx(ratio, abs=0.1)


def test_h2_on_cub_compares_the_same_eight_methods(recorded):
    means = flat(0.02, EIGHT) | {name: 0.9 for name in METHODS if name not in EIGHT}
    recorded[CUB] = study(CUB, means)
    recorded[measures.TOO_HIGH[CUB]] = study(measures.TOO_HIGH[CUB], flat(0.1, EIGHT))
    assert measures.rate_makes_ranking(CUB).findings[0].estimate.value == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize(("gain", "verdict"), [(0.02, KEPT), (0.05, OPEN), (0.1, NOT_KEPT)])
def test_h3_is_the_mean_gain_over_both_classics(recorded, gain, verdict):
    means = {name: 0.4 if name in ("contrastive", "triplet") else 0.4 * (1 + gain) for name in METHODS}
    recorded[CUB] = study(CUB, means)
    judged = measures.newer_gain_little(CUB)
    assert judged.verdict == verdict
    assert [finding.estimate.value for finding in judged.findings] == pytest.approx([gain, gain], abs=0.01)


@pytest.mark.parametrize(("search", "verdict"), [(0.01, KEPT), (0.0, NOT_KEPT)])
def test_h4_is_the_median_ratio_of_search_to_seed(recorded, search, verdict):
    recorded[CUB] = study(CUB, flat(), search=search, seed=0.001)
    assert measures.search_outweighs_seed(CUB).verdict == verdict


@pytest.mark.parametrize(("spread", "verdict"), [(0.001, KEPT), (0.2, NOT_KEPT)])
def test_h5_counts_pairs(recorded, spread, verdict):
    recorded[CUB] = study(CUB, flat(spread), search=0.002)
    judged = measures.few_pairs_differ(CUB)
    assert judged.verdict == verdict
    assert page.value("H5", judged.findings[0].estimate).endswith("of 91")


def test_h6_compares_one_random_trial_with_the_whole_search(recorded):
    rng = np.random.default_rng(0)
    hard = dict(zip(METHODS, rng.uniform(0.02, 0.4, len(METHODS)), strict=True))  # how much worse random trials are
    level = study(CUB, flat(0.01), search=0.002)
    trials = level.trials.copy()
    early = trials["trial"] < 10
    trials.loc[early, "value"] = 0.5 - trials.loc[early, "method"].map(hard) + rng.normal(0, 0.005, early.sum())
    recorded[CUB] = replace(level, trials=trials)
    judged = measures.tuning_levels(CUB)
    assert judged.verdict == KEPT
    after_one = trials[early].groupby("method")["value"].mean().std(ddof=1)
    after_all = trials.groupby(["method", "repetition"])["value"].max().groupby("method").mean().std(ddof=1)
    assert judged.findings[0].estimate.value == pytest.approx(after_one / after_all)
    recorded[CUB] = study(CUB, flat(0.3), random=0.001)
    assert measures.tuning_levels(CUB).verdict == NOT_KEPT


def test_h7_and_h9_compare_the_depths(recorded):
    last, alone = measures.LAST_BLOCK[CUB], measures.EMBEDDER[CUB]
    recorded[CUB] = study(CUB, flat())
    recorded[alone] = study(alone, flat(0.1, EIGHT))
    recorded[last] = study(last, flat(0.02, EIGHT))
    judged = measures.order_at_every_depth(CUB)
    assert judged.verdict == NOT_TESTED  # nothing is trained whole
    assert judged.findings[0].verdict == KEPT
    assert (judged.missing, judged.absent) == ((), (f"{measures.EVERYTHING}: 0 of 1",))
    cells = page.hypothesis_cells([judged])
    assert cells[["this number", "verdict", "repetitions missing"]].iloc[0].tolist() == [
        KEPT,
        NOT_TESTED,
        "Omniglot (everything trained): 0 of 1",
    ]
    assert measures.depth_levels(CUB).verdict == KEPT
    recorded[last] = study(last, flat(-0.02, EIGHT))
    judged = measures.order_at_every_depth(CUB)
    assert judged.verdict == NOT_KEPT  # whatever Omniglot will show
    assert page.hypothesis_cells([judged])["verdict"].iloc[0] == NOT_KEPT  # and not only so far
    recorded[last] = study(last, flat(0.02, EIGHT))
    recorded[measures.EVERYTHING] = study(measures.EVERYTHING, flat(0.1, EIGHT))
    assert measures.order_at_every_depth(CUB).verdict == KEPT
    recorded[measures.EVERYTHING] = study(measures.EVERYTHING, flat(-0.1, EIGHT))
    assert measures.order_at_every_depth(CUB).verdict == NOT_KEPT
    recorded[last] = study(last, flat(0.2, EIGHT))
    assert measures.depth_levels(CUB).verdict == NOT_KEPT


def test_a_method_without_a_finished_rerun_is_named(recorded):
    last, alone = measures.LAST_BLOCK[CUB], measures.EMBEDDER[CUB]
    recorded[CUB] = study(CUB, flat())
    recorded[alone] = study(alone, flat(0.1, EIGHT))
    found = recorded[last] = study(last, flat(0.02, EIGHT))
    recorded[last] = replace(found, scores=found.scores[found.scores["method"] != "margin"])
    for judged in (measures.order_at_every_depth(CUB), measures.depth_levels(CUB)):
        assert judged.findings[0].what.endswith(", without Margin")
        assert judged.findings[0].estimate.n == 7


@shared()
def test_the_ranges_of_luck_stand_beside_the_ratios(recorded):
    last, alone = measures.LAST_BLOCK[CUB], measures.EMBEDDER[CUB]
    recorded[CUB] = study(CUB, flat(), search=0.005)
    recorded[alone], recorded[last] = study(alone, flat(0.1, EIGHT)), study(last, flat(0.02, EIGHT))
    [(hypothesis, (scores, (over, under)))] = measures.ranges(CUB).items()
    assert hypothesis == "H9"
    assert scores.shape == (8, 2)
    assert 0 < under < 0.1
    ranges, lucky = page.beside_cells([CUB]).loc["H9", "value"]
    seen = float(ranges.split(" and ")[0]) / float(ranges.split(" and ")[1])
    assert seen == pytest.approx(measures.depth_levels(CUB).findings[0].estimate.value, rel=0.01)
    assert lucky == f"{100 * over:.2f} and {100 * under:.2f}"
    found = page.numbers()
    assert (found["H9.cub200_2010.luck"], found["H9.cub200_2010.under"]) == pytest.approx((100 * under, 10), rel=0.2)
    scores = [measures.counted_records(name).records.scores for name in (last, alone)]
    means = [each[each["metric"] == "map_at_r"].groupby("method")["value"].mean()[EIGHT] for each in scores]
    relative = [np.ptp(each) / each.mean() for each in means]
    assert found["H9.cub200_2010.relative"] == pytest.approx(relative[0] / relative[1], rel=0.01)
    assert measures.ranges(GROCERY) == {}


def test_h3_says_how_much_can_be_gained_at_all(recorded):
    recorded[GROCERY] = study(GROCERY, flat(0.01))
    judged = measures.newer_gain_little(GROCERY)
    base = measures.comparison_of(measures.counted_records(GROCERY), [], "precision_at_1").summary["mean"][
        "contrastive"
    ]
    assert judged.findings[0].estimate.attainable[1] == pytest.approx(1 / base - 1)
    assert f"(perfect score: {100 * (1 / base - 1):+.1f} %)" in page.hypothesis_cells([judged])["value"].iloc[0]


def test_h8_is_kept_if_the_interval_contains_zero(recorded):
    means = flat(0.01) | {"normalized_softmax": 0.4, "proxy_nca": 0.4}
    recorded[CUB] = study(CUB, means, rng=1)
    judged = measures.one_function_one_result(CUB)
    assert judged.verdict == KEPT
    assert page.region("H8", judged.findings[0].region) == "the interval contains 0"
    recorded[CUB] = study(CUB, means | {"proxy_nca": 0.45})
    assert measures.one_function_one_result(CUB).verdict == NOT_KEPT


def test_correlations_move_when_scores_are_redrawn(recorded):
    recorded[CUB] = study(CUB, flat(0.01), search=0.005)
    found = measures.redrawn_correlations(CUB)
    assert list(found) == list(published.DATASETS)
    assert all(each.low < each.high and each.n == 12 for each in found.values())
    assert measures.redrawn_correlations(CARS) == {}
    beside = page.beside_cells().droplevel("on").set_index("what", append=True)["value"]
    assert f"{found['CUB200'].value:.2f} [{found['CUB200'].low:.2f}, {found['CUB200'].high:.2f}]" in beside.to_list()
    equal, closer = measures.equality(CUB)[["equal", "equal_within_half"]].sum()
    assert closer < equal
    assert beside["H5", "pairs that are equal within a point"] == f"{equal} of 91"
    assert beside["H5", "pairs that are equal within half a point"] == f"{closer} of 91"
    assert re.fullmatch("[0-9]+ of 91", beside["H5", "pairs that differ by Welch's tests, Holm's correction"])
    assert beside["H6", "trials that diverged, and are left out"] == "0 of 462"
    assert beside["H8", "equal within a point"] == "yes"
    recorded[CUB].trials.loc[3:5, "state"] = "diverged"
    assert "3 of 462" in page.beside_cells()["value"].to_list()


def test_only_what_is_judged_on_a_data_set_stands_beside_it(recorded):
    recorded[GROCERY] = study(GROCERY, flat())
    assert set(page.beside_cells().index) == {("H1", "Grocery Store")}


@shared()
def test_the_page_tells_every_verdict(recorded):
    recorded[CUB] = study(CUB, flat())
    judged = measures.judged_hypotheses()
    cells = page.hypothesis_cells(judged)
    assert cells.loc["H3", "verdict"].iloc[0] == next(each.verdict for each in judged if each.hypothesis == "H3")
    assert len(page.finding_numbers(judged)) == sum(len(each.findings) for each in judged) > 8
    assert all(each.verdict == NOT_TESTED for each in judged if each.study != CUB)
    short = page.short_cells(judged)
    assert len(short) == 9
    assert short.columns.to_list() == ["CUB-200 (2010)", "Cars crops", "Grocery Store", "Expected"]
    newer = short.loc["H3. Newer losses gain little over those of 2006."]
    assert newer["Expected"].endswith(": at most 5 %")
    gains = next(each for each in judged if (each.hypothesis, each.study) == ("H3", CUB)).findings
    shown = [page.value("H3", each.estimate).split(" [")[0] for each in gains]
    assert newer["CUB-200 (2010)"].split(": ")[1] == ", ".join(shown)
    assert short.loc["H4. Search luck outweighs seed luck.", "Grocery Store"] == "–"


@shared()
def test_the_numbers_of_the_text_are_those_of_the_findings(recorded):
    recorded[CUB] = study(CUB, flat())
    found, judged = page.numbers(), [each for each in measures.judged_hypotheses() if each.study == CUB]
    for verdict in (KEPT, NOT_KEPT, OPEN):
        expected = [each.hypothesis for each in judged if each.verdict == verdict]
        assert found[f"cub200_2010.{verdict}"] == ", ".join(expected)
        assert found[f"cars196crops.{verdict}"] == ""
    gain = next(each for each in judged if each.hypothesis == "H3").findings[0].estimate
    assert found["H3.cub200_2010.value"] == pytest.approx(100 * gain.value)
    assert found["H3.cub200_2010.most"] == pytest.approx(100 * gain.attainable[1])
    assert found["H1.cub200_2010.n"] == 12
    assert "H3.cars196crops.value" not in found
