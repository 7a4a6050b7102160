"""H10 and H11 on made-up studies, which stand in the place of those of whole networks."""

from dataclasses import replace

import numpy as np
import pytest
from factories import searched_study
from test_hypotheses import METHODS, flat

from dmlrc import studies
from dmlrc.records import shared
from dmlrc.report import labels, statistics, titles
from dmlrc.report.hypotheses import measures, page, whole
from dmlrc.report.hypotheses.measures import CARS, CUB, EMBEDDER, KEPT, LAST_BLOCK, NOT_KEPT, NOT_TESTED, OPEN
from dmlrc.report.hypotheses.whole import NO_VERDICT, NOT_RUN

# Each judgement asks the records once, as it does on a page
losses_matter_less, newer_gain_little = map(shared(), (whole.losses_matter_less, whole.newer_gain_little_in_networks))
judged_networks, judged_hypotheses = map(shared(), (whole.judged_networks, measures.judged_hypotheses))

EVERYTHING, ALONE = LAST_BLOCK[CARS], EMBEDDER[CARS]
LONG = LAST_BLOCK[CUB], EMBEDDER[CUB]
EIGHT = [method.name for method in studies.get(EVERYTHING).methods]
FOUR = ["contrastive", "triplet", "normalized_softmax", "multi_similarity"]


@pytest.fixture
def networks(recorded, monkeypatch):
    """The records, with the table of frozen features; pairs of existing names stand for those of whole networks."""
    monkeypatch.setattr(whole, "PAIRS", {CARS: (LONG, (EVERYTHING, ALONE)), CUB: (("no-such", "study"),)})
    monkeypatch.setattr(whole, "FEWER", {EVERYTHING: (tuple(FOUR), 2)})
    recorded[CARS] = searched_study(CARS, flat(0.05, METHODS), search=0.002)
    return recorded


def study(name, means, rng=0, **luck):
    return searched_study(name, means, **({"search": 0, "seed": 0.001} | luck), rng=rng)


def newer(gain):
    return {name: 0.4 if name in ("contrastive", "triplet") else 0.4 * (1 + gain) for name in EIGHT}


def put(networks, everything, alone=None):
    networks[EVERYTHING] = study(EVERYTHING, everything)
    networks[ALONE] = study(ALONE, alone or flat(0.1, EIGHT), rng=1)


def only(found, methods, reruns=9):
    """The records of these methods, and of so many reruns each."""
    scores, runs = (
        each[each["method"].isin(methods) & (each["rerun"] < reruns)] for each in (found.scores, found.reruns)
    )
    return replace(found, scores=scores, reruns=runs)


class TestWhatIsJudged:
    def test_the_studies_are_those_of_the_preregistration(self):
        assert [everything for everything, _ in whole.PAIRS[CARS]] == [
            "cars196crops-depths/mobilenetv2-whole-2000",
            "cars196crops-depths/mobilenetv2-whole",
        ]
        assert [alone for _, alone in whole.PAIRS[CUB]] == ["cub200-2010-depths/mobilenetv2-embedder-2000"]
        half = whole.FEWER["cars196crops-depths/mobilenetv2-half"]
        assert half == ((*FOUR, "cosface", "proxy_anchor"), 3)
        assert whole.FEWER["cars196crops-depths/mobilenetv2-whole"] == (tuple(FOUR), 2)

    def test_without_records_nothing_is_run(self, recorded):
        found = judged_networks()
        assert [(each.hypothesis, each.study) for each in found] == [
            ("H10", CARS),
            ("H10", CUB),
            ("H11", CARS),
            ("H11", CUB),
        ]
        assert {each.verdict for each in found} == {NOT_RUN}
        assert whole.recorded_networks() == []
        assert (page.hypothesis_cells(found)["verdict"] == NOT_RUN).all()
        assert whole.omissions(found).empty

    def test_the_first_pair_that_is_complete(self, networks):
        def on():
            return tuple(each.name for each in whole.pair_of(CARS))

        put(networks, flat(0.02, EIGHT))
        assert on() == (EVERYTHING, ALONE)
        networks[LONG[0]] = study(LONG[0], flat(0.02, EIGHT))
        assert on() == (EVERYTHING, ALONE)  # its twin is missing
        networks[LONG[1]] = study(LONG[1], flat(0.1, EIGHT))
        assert on() == LONG
        assert newer_gain_little(CARS).on == on()
        networks[LONG[0]] = only(networks[LONG[0]], EIGHT[1:])
        assert on() == (EVERYTHING, ALONE)
        assert losses_matter_less(CUB).verdict == NOT_RUN

    def test_four_methods_with_two_reruns_are_enough_of_one_study_and_the_others_are_named(self, networks):
        put(networks, flat(0.02, EIGHT))
        networks[EVERYTHING] = only(networks[EVERYTHING], FOUR, reruns=2)
        found = losses_matter_less(CARS)
        assert list(found.without) == FOUR
        assert ", without ArcFace, Margin, NTXent and SoftTriple" in found.findings[0].what
        assert [each.estimate.n for each in found.findings] == [4, 4]
        assert (found.methods, found.reruns) == (4, 2)
        assert set(whole.network_cells([found])["methods, reruns"]) == {"4, 2"}
        networks[EVERYTHING] = only(networks[EVERYTHING], FOUR[:3], reruns=2)
        assert losses_matter_less(CARS).verdict == NOT_RUN

    def test_other_verdicts_do_not_know_of_them(self, networks):
        put(networks, flat(0.02, EIGHT))
        assert {each.hypothesis for each in judged_hypotheses()} == {f"H{number}" for number in range(1, 10)}

    def test_without_a_luck_of_search_nothing_is_tested(self, networks):
        put(networks, flat(0.02, EIGHT))
        del networks[CARS]
        found = judged_networks()
        assert {each.verdict for each in found if each.study == CARS} == {NOT_TESTED}
        assert NOT_TESTED in set(whole.network_cells(found)["verdict"])


class TestNewerLosses:
    @pytest.mark.parametrize(("gain", "verdict"), [(0.0, KEPT), (0.05, OPEN), (0.12, NOT_KEPT)])
    def test_h10_is_the_gain_over_contrastive(self, networks, gain, verdict):
        put(networks, newer(gain))
        found = newer_gain_little(CARS)
        assert found.verdict == verdict
        assert found.findings[0].estimate.value == pytest.approx(gain, abs=0.005)
        assert list(found.beside) == ["over triplet in P@1", "over contrastive in MAP@R", "over triplet in MAP@R"]
        assert list(whole.network_beside_cells([found]).index.get_level_values("what")) == list(found.beside)

    def test_the_wider_interval_decides(self, networks):
        put(networks, newer(0.04))
        networks[CARS] = searched_study(CARS, flat(0.05, METHODS), search=0.01)
        found = newer_gain_little(CARS)
        wide, seeds = found.findings
        assert (wide.verdict, seeds.verdict, found.verdict) == (OPEN, KEPT, OPEN)
        assert wide.estimate.low < seeds.estimate.low < seeds.estimate.high < wide.estimate.high
        assert wide.estimate.value == pytest.approx(seeds.estimate.value)

    def test_seeds_alone_by_hand(self, networks):
        put(networks, newer(0.04))
        frame = networks[EVERYTHING].scores
        values = frame[frame["metric"] == "precision_at_1"].pivot(index="method", columns="rerun", values="value")
        means, error = values.mean(axis=1), np.sqrt(values.var(axis=1).mean() / values.shape[1])
        top, base = means.drop(["contrastive", "triplet"]).mean(), means["contrastive"]
        spread = error * np.sqrt(1 / 6 / base**2 + top**2 / base**4)
        found = newer_gain_little(CARS).findings[1].estimate
        assert found.value == pytest.approx(top / base - 1)
        assert found.half == pytest.approx(spread * 2.0369, rel=1e-3)  # Student's t with 8 x 4 degrees of freedom

    def test_what_can_be_told_lies_on_both_sides_of_the_limit(self, networks):
        put(networks, newer(0.04))
        low, high = newer_gain_little(CARS).limits
        assert low < 0.05 < high
        assert low + high == pytest.approx(0.1)
        cells = whole.network_cells([newer_gain_little(CARS)])
        assert cells.index[0][0].startswith("H10. With everything trained")
        limits = cells["found with a power of 80 %: kept; not kept"]
        assert set(limits) == {f"at most {100 * low:.1f} %; at least {100 * high:.1f} %"}


class TestRanges:
    @pytest.mark.parametrize(("spread", "verdict"), [(0.04, KEPT), (0.1, OPEN), (0.2, NOT_KEPT)])
    def test_h11_is_the_ratio_of_two_relative_ranges(self, networks, spread, verdict):
        put(networks, flat(spread, EIGHT))
        found = losses_matter_less(CARS)
        assert (found.verdict, found.by_luck) == (verdict, ())
        assert found.findings[0].estimate.value == pytest.approx(spread / 0.1, rel=0.06)

    def test_scores_twice_as_high_may_lie_twice_as_far_apart(self, networks):
        put(networks, {name: 2 * value for name, value in flat(0.1, EIGHT).items()})
        assert losses_matter_less(CARS).findings[0].estimate.value == pytest.approx(1, rel=0.03)

    @pytest.mark.parametrize(("everything", "alone"), [(0.0, 0.1), (0.1, 0.0)])
    def test_no_verdict_where_luck_makes_a_range(self, networks, everything, alone):
        put(networks, flat(everything, EIGHT), flat(alone, EIGHT))
        found = losses_matter_less(CARS)
        assert found.verdict == NO_VERDICT
        assert {each.verdict for each in found.findings} == {NO_VERDICT}
        assert found.by_luck == ((EVERYTHING,) if everything == 0 else (ALONE,))
        cells = whole.network_cells([found])
        assert set(cells["verdict"]) == {"no verdict"}
        assert set(cells["noise alone could make the range of"]) == set(map(titles.title, found.by_luck))

    def test_one_omission_changes_the_verdict(self, networks):
        apart = flat(0.03, EIGHT) | {"margin": 0.3}
        put(networks, apart, flat(0.08, EIGHT))
        found = losses_matter_less(CARS)
        assert found.verdict != KEPT
        assert found.turning == ("margin",)
        assert found.without["margin"].verdict == KEPT
        cells = whole.network_cells([found])
        assert (set(cells["verdict"]), set(cells["hangs on"])) == ({found.verdict}, {"Margin"})
        assert set(cells["kind"]) == {"exploratory"}
        assert whole.network_beside_cells([found])["value"].to_list() == ["1 of 8"]
        without = whole.omissions([found])
        cells = labels.cells(without.set_index(["study", "without"]), whole.OMISSION_CELLS)
        assert cells.loc[("Cars crops", "Margin"), "verdict"] == KEPT
        assert len(without) == 8

    def test_ranges_of_equal_methods_are_above_luck_in_one_of_twenty_studies(self, networks):
        put(networks, flat(0.0, EIGHT))
        compared = whole.readings(measures.counted_records(EVERYTHING), CARS)[whole.DECIDES]
        rng, error = np.random.default_rng(0), np.sqrt(compared.known.repetition)
        told = compared.summary
        drawn = told["mean"].mean() + error * rng.normal(size=(400, 8)) / np.sqrt(rng.chisquare(28, (400, 1)) / 28)
        summaries = (told.assign(mean=each) for each in drawn)
        df = compared.known.df
        ranges = [statistics.range_of(each["mean"], each["error"] ** 2, each["df"], df) for each in summaries]
        above = np.mean([each.low > 0 for each in ranges])
        assert above == pytest.approx(0.05, abs=3 * np.sqrt(0.05 * 0.95 / 400))

    def test_the_interval_covers_the_ratio(self):
        """Of ten methods, three reruns, luck and ranges as on Cars crops, at three true ratios."""
        rng, made, of = np.random.default_rng(0), 150, whole.range_over_mean
        for true in (0.6, 1.0, 1.4):
            inside = 0
            for _ in range(made):
                places = np.append(rng.random(8), [0, 1]) - 0.5
                centres = [1 + spread * places / (1 - spread * places.mean()) for spread in (0.3 * true, 0.3)]
                wanted = np.divide(*map(of, centres))
                groups = [(rng.normal(each, 0.014), np.full(10, 0.014)) for each in centres]
                found = statistics.parametric_bootstrap(groups, lambda one, other: of(one) / of(other), 1000)
                inside += found.low <= wanted <= found.high
            assert inside / made > 0.91


class TestRatiosOfRanges:
    """H2 and H9 by the rule of H11; their preregistered verdicts are `measures.judged_hypotheses`'s."""

    def put(self, recorded, last, alone):
        recorded[CARS] = searched_study(CARS, flat(0.05, METHODS), search=0.002)
        recorded[LAST_BLOCK[CARS]] = study(LAST_BLOCK[CARS], last)
        recorded[EMBEDDER[CARS]] = study(EMBEDDER[CARS], alone, rng=1)
        with shared():
            [found] = whole.explored()
            return found, measures.depth_levels(CARS)

    def test_a_range_above_luck_keeps_its_verdict(self, recorded):
        found, before = self.put(recorded, flat(0.04, EIGHT), flat(0.1, EIGHT))
        assert (found.hypothesis, found.study, found.by_luck) == ("H9", CARS, ())
        assert found.verdict == before.verdict == KEPT
        assert found.findings[0].estimate == before.findings[0].estimate
        assert set(found.without) == set(EIGHT)
        left = [score for name, score in flat(0.1, EIGHT).items() if name != EIGHT[0]]
        over = [score for name, score in flat(0.04, EIGHT).items() if name != EIGHT[0]]
        assert found.without[EIGHT[0]].estimate.value == pytest.approx(np.ptp(over) / np.ptp(left), abs=0.05)

    def test_luck_under_the_line_gives_no_verdict_and_changes_none_that_was_preregistered(self, recorded):
        found, before = self.put(recorded, flat(0.1, EIGHT), flat(0.0, EIGHT))
        assert found.by_luck == (EMBEDDER[CARS],)
        assert found.verdict == NO_VERDICT
        assert before.verdict == NOT_KEPT
        cells = whole.explored_cells([found], judged_hypotheses()).iloc[0]
        assert (cells["preregistered verdict"], cells["by the later rule"]) == (NOT_KEPT, NO_VERDICT)

    def test_a_ratio_that_hangs_on_one_method_says_so(self, recorded):
        outlier = flat(0.1, EIGHT) | {"margin": 0.7}
        found, _ = self.put(recorded, outlier, flat(0.1, EIGHT))
        assert (found.verdict, found.turning) == (NOT_KEPT, ("margin",))
