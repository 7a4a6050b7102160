"""Retrieval metrics against loops, hand-drawn cases, independent judges and the laws they must obey."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dmlrc.errors import DivergedError, UsageError
from dmlrc.metrics import neighbours, retrieval
from dmlrc.metrics.retrieval import NAMES, TIE, count_excluded, per_class, retrieval_scores

CHECKED = (*NAMES, "recall_at_3", "recall_at_16")


def ranked_score(name, relevant, positives, size):
    """One query's metric from its ranking without ties (a list of 0 and 1), straight from the definition."""
    if name.startswith("recall"):
        return float(any(relevant[: int(name.split("_")[-1])]))
    if name == "precision_at_1":
        return relevant[0]
    if name == "r_precision":
        return sum(relevant[:positives]) / positives
    cutoff = {"map_at_r": positives, "map_at_c": size, "map_at_1000": 1000}[name]
    precisions = [sum(relevant[:k]) / k for k, hit in enumerate(relevant[:cutoff], 1) if hit]
    return sum(precisions) / min(positives, 1000)


def arrangements(tied):
    """Every order of ones and zeros, once."""
    places = itertools.combinations(range(len(tied)), sum(tied))
    return [tuple(int(place in chosen) for place in range(len(tied))) for chosen in places]


def oracle(names, references, labels, queries=None, query_labels=None):
    """Loops over queries and over every order of the tied references (small integer coordinates: exact distances)."""
    own = queries is None
    queries, query_labels = (references, labels) if own else (queries, query_labels)
    scores = {name: [] for name in names}
    for i, (query, label) in enumerate(zip(queries, query_labels, strict=True)):
        others = [j for j in range(len(references)) if not (own and i == j)]
        positives = sum(labels[j] == label for j in others)
        if positives == 0:
            continue
        groups = {}
        for j in others:
            squared = sum((a - b) ** 2 for a, b in zip(query, references[j], strict=True))
            groups.setdefault(squared, []).append(int(labels[j] == label))
        orders = [arrangements(groups[d]) for d in sorted(groups)]
        rankings = [sum(order, ()) for order in itertools.product(*orders)]  # equally likely: equal multiplicity
        for name in names:
            scores[name].append(np.mean([ranked_score(name, r, positives, positives + own) for r in rankings]))
    return {name: float(np.mean(values)) for name, values in scores.items()}


def assert_close(ours, expected, tolerance=1e-12):
    assert ours == pytest.approx(expected, abs=tolerance)


def clusters(n=300, classes=12, dim=16, spread=0.7, seed=0):
    """Overlapping classes on the sphere, float32, sizes that differ."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=n)
    embeddings = spread * rng.normal(size=(classes, dim))[labels] + rng.normal(size=(n, dim))
    return (embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)).astype(np.float32), labels


points = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 2)), min_size=2, max_size=8)


def split(points):
    return [point[:2] for point in points], [point[2] for point in points]


# --- definitions -----------------------------------------------------------------------------------------------------


def test_hand_drawn_case():
    """Points on a line at 0, 1, 3, 7, 8 of the classes a, a, b, a, b; computed on paper.

    query 0 (a, R = 2): neighbours 1 a, 3 b, 7 a, 8 b   P@1 1, RP 1/2, AP@R 1/2, AP@C (1 + 2/3) / 2
    query 1 (a, R = 2): neighbours 0 a, 3 b, 7 a, 8 b   the same
    query 3 (b, R = 1): neighbours 1 a, 0 a, 7 a, 8 b   P@1 0, RP 0, AP@R 0, AP@C 0, AP@1000 1/4
    query 7 (a, R = 2): neighbours 8 b, 3 b, 1 a, 0 a   0, 0, 0, AP@C (1/3) / 2, AP@1000 (1/3 + 2/4) / 2
    query 8 (b, R = 1): neighbours 7 a, 3 b, 1 a, 0 a   0, 0, 0, AP@C 1/2
    """
    scores = retrieval_scores([[0.0], [1.0], [3.0], [7.0], [8.0]], [0, 0, 1, 0, 1], CHECKED)
    average_precision = (1 + 2 / 3) / 2
    expected = {
        "precision_at_1": 2 / 5,
        "recall_at_1": 2 / 5,
        "recall_at_2": 3 / 5,
        "recall_at_3": 4 / 5,
        "recall_at_4": 1,
        "recall_at_8": 1,
        "recall_at_16": 1,
        "r_precision": (1 / 2 + 1 / 2) / 5,
        "map_at_r": (1 / 2 + 1 / 2) / 5,
        "map_at_c": (2 * average_precision + 0 + (1 / 3) / 2 + 1 / 2) / 5,
        "map_at_1000": (2 * average_precision + 1 / 4 + (1 / 3 + 2 / 4) / 2 + 1 / 2) / 5,
    }
    assert_close(scores, expected)


@settings(max_examples=40)
@given(points, st.integers(0, 2))
def test_equals_the_mean_over_all_orders_of_ties(points, first):
    embeddings, labels = split(points)
    assume(1 < len(set(labels)) < len(labels))
    expected = oracle(CHECKED, embeddings, labels)
    assert_close(retrieval_scores(np.array(embeddings, np.float32), labels, CHECKED), expected)
    # Alone, a third of them: only as many neighbours are looked at as it needs, and a tie may go on behind them.
    for name in CHECKED[first::3]:
        assert_close(retrieval_scores(np.array(embeddings, np.float32), labels, [name])[name], expected[name])


@settings(max_examples=60)
@given(points, points)
def test_separate_queries_equal_the_mean_over_all_orders_of_ties(gallery, queries):
    (embeddings, labels), (query, query_labels) = split(gallery), split(queries)
    assume(len(set(labels)) > 1 and set(labels) & set(query_labels))
    ours = retrieval_scores(
        np.array(embeddings, np.float32), labels, CHECKED, (np.array(query, np.float32), query_labels)
    )
    assert_close(ours, oracle(CHECKED, embeddings, labels, query, query_labels))


@pytest.mark.parametrize("dim", [2, 64, 512])
def test_equals_pytorch_metric_learning_without_ties(dim):
    calculator = pytest.importorskip("pytorch_metric_learning.utils.accuracy_calculator")
    embeddings, labels = clusters(dim=dim)
    judge = calculator.AccuracyCalculator(
        include=("precision_at_1", "r_precision", "mean_average_precision_at_r"), k="max_bin_count"
    )
    theirs = judge.get_accuracy(torch.from_numpy(embeddings), torch.from_numpy(labels))
    ours = retrieval_scores(embeddings, labels, ("precision_at_1", "r_precision", "map_at_r"))
    theirs = dict(zip(ours, (theirs[n] for n in ("precision_at_1", "r_precision", "mean_average_precision_at_r"))))  # noqa: B905
    assert_close(ours, theirs, 1e-5)


def test_map_at_1000_equals_scikit_learn_where_all_are_retrieved():
    from sklearn.metrics import average_precision_score
    from sklearn.metrics.pairwise import euclidean_distances

    embeddings, labels = clusters(n=120)
    distances = euclidean_distances(embeddings.astype(np.float64))
    expected = []
    for i in range(len(labels)):
        others = np.arange(len(labels)) != i
        expected.append(average_precision_score(labels[others] == labels[i], -distances[i, others]))
    assert retrieval_scores(embeddings, labels, ("map_at_1000",))["map_at_1000"] == pytest.approx(
        np.mean(expected), abs=1e-9
    )


def test_neighbours_equal_faiss():
    faiss = pytest.importorskip("faiss")
    embeddings, _ = clusters(n=500, dim=32)
    index = faiss.IndexFlatL2(32)
    index.add(embeddings)
    theirs, _ = index.search(embeddings, 10)
    tensor = torch.from_numpy(embeddings)
    ours, columns = neighbours.smallest(
        neighbours.squared_euclidean(tensor, tensor, neighbours.squared_norms(tensor)), 10
    )
    np.testing.assert_allclose(ours, theirs, atol=2e-6)
    direct = (tensor[:, None] - tensor[columns]).square().sum(-1)
    np.testing.assert_allclose(ours, direct, atol=2e-6)


# --- what must hold for any embedding --------------------------------------------------------------------------------


def test_a_perfect_embedding_scores_one_everywhere():
    """map_at_c too, where the published code gives (n - 1) / n; and duplicates of the query are found, not dropped."""
    labels = np.repeat(np.arange(5), [2, 3, 4, 5, 6])
    embeddings = np.eye(5)[labels]
    assert retrieval_scores(embeddings, labels, CHECKED) == dict.fromkeys(CHECKED, 1.0)


def test_map_at_1000_of_larger_classes():
    """1,100 positives, of which 1,000 are looked at: a perfect embedding scores 1, not 1,000 / 1,100."""
    labels = np.repeat([0, 1], 1101)
    scores = retrieval_scores(labels[:, None], labels, ("map_at_1000",), query=([[0.0], [1.0]], [0, 1]))
    assert scores["map_at_1000"] == pytest.approx(1.0)


def test_dropping_the_first_column_is_another_metric():
    """Two classes on top of each other, twice: whoever drops the first neighbour instead of the query keeps the query
    itself as a hit for one half of them."""
    embeddings, labels = [[0.0], [0.0], [9.0], [9.0]], [0, 1, 0, 1]
    distances = np.abs(np.subtract.outer([0.0, 0.0, 9.0, 9.0], [0.0, 0.0, 9.0, 9.0]))
    second = np.argsort(distances, axis=1, kind="stable")[:, 1]
    naive = np.mean(np.array(labels)[second] == labels)
    assert naive == 0.5
    assert retrieval_scores(embeddings, labels, ("precision_at_1",))["precision_at_1"] == 0.0


@pytest.mark.parametrize("scale", [0.0, 1.0, 3.7])
def test_a_collapsed_embedding_scores_chance(scale):
    """Any other of the N - 1 images is equally likely at each place."""
    labels = np.repeat(np.arange(4), 5)
    chance = 4 / 19
    scores = retrieval_scores(np.full((20, 7), scale, np.float32), labels, CHECKED)
    assert scores["precision_at_1"] == pytest.approx(chance, abs=1e-12)
    assert scores["r_precision"] == pytest.approx(chance, abs=1e-12)
    assert scores["recall_at_2"] == pytest.approx(1 - (15 / 19) * (14 / 18), abs=1e-12)
    ap = sum(chance * (1 + (k - 1) * 3 / 18) / k for k in range(1, 5)) / 4
    assert scores["map_at_r"] == pytest.approx(ap, abs=1e-12)
    # Of more images than are looked at: the ties go on behind neighbours that are all of other classes.
    alone = retrieval_scores(np.full((100, 7), scale, np.float32), np.repeat(np.arange(20), 5), ["precision_at_1"])
    assert alone["precision_at_1"] == pytest.approx(4 / 99, abs=1e-12)


def test_row_order_changes_naive_scores_but_not_ours():
    labels = np.array([0, 0, 0, 1, 1, 1])
    orders = [[0, 1, 2, 3, 4, 5], [0, 3, 1, 4, 2, 5]]

    def naive(labels):
        others = [[j for j in range(6) if j != i] for i in range(6)]
        return np.mean([labels[others[i][0]] == labels[i] for i in range(6)])

    assert naive(labels[orders[0]]) != naive(labels[orders[1]])
    ours = [retrieval_scores(np.ones((6, 3)), labels[order], CHECKED) for order in orders]
    assert ours[0] == pytest.approx(ours[1], abs=1e-15)


@settings(max_examples=14)
@given(st.integers(0, 10**6), st.sampled_from([2, 3, 16, 128]), st.sampled_from([30, 97]), st.booleans())
def test_row_order_does_not_matter(seed, dim, n, duplicates):
    """Exactly, for real float32 embeddings with near and full ties, in blocks of any shape."""
    rng = np.random.default_rng(seed)
    embeddings, labels = clusters(n, classes=6, dim=dim, seed=seed)
    if duplicates:
        embeddings = embeddings[rng.integers(n // 3, size=n)]
        embeddings[: n // 4] *= np.float32(1 + 1e-7)  # and some that differ in the last digit
    names = CHECKED if rng.integers(2) else CHECKED[:7]  # all neighbours, or those up to R only
    before = retrieval_scores(embeddings, labels, names)
    order = rng.permutation(n)
    elements, neighbours.BLOCK_ELEMENTS = neighbours.BLOCK_ELEMENTS, int(rng.integers(1, 20 * n))
    try:
        after = retrieval_scores(embeddings[order], labels[order], names)
    finally:
        neighbours.BLOCK_ELEMENTS = elements
    assert_close(after, before, 1e-13)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.floats(1e-6, 1e6), st.sampled_from([2, 16]))
def test_rotation_shift_and_scale_do_not_matter(seed, scale, dim):
    rng = np.random.default_rng(seed)
    embeddings, labels = clusters(80, classes=5, dim=dim, seed=seed)
    rotation, _ = np.linalg.qr(rng.normal(size=(dim, dim)))
    moved = scale * (embeddings.astype(np.float64) @ rotation + rng.normal(size=dim))
    assert_close(
        retrieval_scores(moved, labels, CHECKED), retrieval_scores(embeddings.astype(np.float64), labels, CHECKED), 1e-9
    )


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_order_of_the_metrics(seed):
    embeddings, labels = clusters(60, classes=7, dim=3, seed=seed)
    s = retrieval_scores(embeddings, labels, CHECKED)
    assert s["map_at_r"] <= s["r_precision"] + 1e-12
    assert s["map_at_r"] <= s["map_at_c"] + 1e-12 <= s["map_at_1000"] + 2e-12
    assert s["precision_at_1"] == s["recall_at_1"] <= s["recall_at_2"] <= s["recall_at_3"] <= s["recall_at_4"]


def test_relabelling_does_not_matter():
    embeddings, labels = clusters()
    assert retrieval_scores(embeddings, labels, CHECKED) == retrieval_scores(embeddings, 1000 - 7 * labels, CHECKED)


# --- what is done with the numbers -----------------------------------------------------------------------------------


def test_nothing_is_normalised():
    """The nearest by distance is not the nearest by angle."""
    embeddings = [[1.0, 0.0], [1.2, 0.6], [10.0, 0.0], [10.0, 6.0]]
    assert retrieval_scores(embeddings, [0, 0, 1, 1], ("precision_at_1",))["precision_at_1"] == 1.0
    assert retrieval_scores(embeddings, [0, 1, 0, 1], ("precision_at_1",))["precision_at_1"] == 0.0


def test_float32_is_checked_where_it_cannot_tell():
    """Far from the origin, float32 distances by the expansion are noise; the ranking is still right."""
    embeddings, labels = clusters(200, dim=8)
    exact = retrieval_scores(np.float64(np.float32(embeddings + 1000)) - 1000, labels, CHECKED)
    far = np.float32(embeddings + 1000)
    assert_close(retrieval_scores(far, labels, CHECKED), exact, 1e-9)
    squares = (far**2).sum(1)
    naive = squares[:, None] + squares - 2 * far @ far.T
    np.fill_diagonal(naive, np.inf)
    assert abs((labels[naive.argmin(1)] == labels).mean() - exact["precision_at_1"]) > 0.05


def test_rounding_error_bounds_what_float32_does():
    for dim in (2, 32, 512):
        for shift in (0, 10):
            x = torch.from_numpy(clusters(200, dim=dim)[0]) + shift
            single = neighbours.squared_euclidean(x, x, neighbours.squared_norms(x))
            double = neighbours.squared_euclidean(x.double(), x.double(), neighbours.squared_norms(x.double()))
            bound = neighbours.rounding_error(single, neighbours.squared_norms(x), dim)
            assert ((single - double).abs() <= bound / 2).all()
            norms = neighbours.squared_norms(x.double())
            assert (neighbours.rounding_error(double, norms, dim) < TIE * (2 * norms[:, None] + double)).all()


def test_blocks_cover_all_rows():
    for device, most in (("cpu", neighbours.BLOCK_ELEMENTS), ("cuda", neighbours.GPU_BLOCK_ELEMENTS)):
        for rows, columns in ((1, 1), (7, 10**9), (10_000, 60_000)):
            cut = list(neighbours.blocks(rows, columns, torch.device(device)))
            assert [i for block in cut for i in range(block.start, block.stop)] == list(range(rows))
            assert all((b.stop - b.start) * columns <= max(columns, most) for b in cut)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_dtypes(dtype):
    embeddings, labels = clusters()
    given = torch.from_numpy(embeddings).to(dtype).requires_grad_()
    assert retrieval_scores(given, labels, CHECKED) == retrieval_scores(given.detach().float().numpy(), labels, CHECKED)


def test_inside_autocast():
    embeddings, labels = clusters()
    tensor = torch.from_numpy(embeddings)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert retrieval_scores(tensor, labels, CHECKED) == retrieval_scores(embeddings, labels, CHECKED)
        assert retrieval_scores(tensor.double(), labels, CHECKED) == retrieval_scores(embeddings, labels, CHECKED)


def test_read_only_and_reversed_arrays():
    embeddings, labels = clusters()
    expected = retrieval_scores(embeddings[::-1].copy(), labels[::-1].copy(), CHECKED)
    embeddings.flags.writeable = False
    assert retrieval_scores(embeddings[::-1], labels[::-1], CHECKED) == expected


@pytest.mark.gpu
def test_cuda_equals_cpu():
    embeddings, labels = clusters(2000, dim=128)
    embeddings[:300] = embeddings[300:600]
    tensors = torch.from_numpy(embeddings).cuda(), torch.from_numpy(labels).cuda()
    torch.set_float32_matmul_precision("high")
    try:
        assert_close(retrieval_scores(*tensors, CHECKED), retrieval_scores(embeddings, labels, CHECKED))
    finally:
        torch.set_float32_matmul_precision("highest")


# --- who is a query --------------------------------------------------------------------------------------------------


def test_classes_of_one_image_are_references_but_not_queries():
    """The single image of class 2 stands nearest to the first; it costs that query, and has no score itself."""
    embeddings, labels = [[0.0], [1.0], [0.1], [10.0], [11.0]], [0, 0, 2, 1, 1]
    assert retrieval_scores(embeddings, labels, ("precision_at_1",))["precision_at_1"] == 2 / 4
    assert count_excluded(labels) == 1
    assert count_excluded([0, 0, 1], query_labels=[0, 0, 7, 8, 1]) == 2


def test_a_separate_gallery_excludes_nothing():
    embeddings, labels = clusters(100, classes=5)
    scores = retrieval_scores(embeddings, labels, ("precision_at_1", "recall_at_1"), query=(embeddings, labels))
    assert scores == {"precision_at_1": 1.0, "recall_at_1": 1.0}


@pytest.mark.parametrize(
    ("embeddings", "labels", "message"),
    [
        (np.zeros((0, 3)), np.zeros(0, int), r"\(0, 3\)"),
        (np.zeros((3, 0)), [0, 0, 1], r"\(3, 0\)"),
        (np.zeros(3), [0, 0, 1], r"\(3,\)"),
        (np.zeros((3, 2)), [0, 0], r"shape \(3,\)"),
        (np.zeros((3, 2)), [0.0, 0.0, 1.0], "integers"),
        (np.zeros((3, 2)), ["a", "a", "b"], "labels must be an array"),
        ("abc", [0, 0, 1], "embeddings must be an array"),
        (np.zeros((3, 2), complex), [0, 0, 1], "real"),
        (np.full((3, 2), 1e20), [0, 0, 1], "above"),
        (np.zeros((3, 2)), [0, 0, 0], "two classes"),
        (np.zeros((3, 2)), [0, 1, 2], "two images"),
    ],
)
def test_bad_input_is_named(embeddings, labels, message):
    with pytest.raises(UsageError, match=message):
        retrieval_scores(embeddings, labels, NAMES)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_is_a_divergence(bad):
    embeddings, labels = clusters()
    embeddings[[3, 7], 0] = bad
    with pytest.raises(DivergedError, match="2 of 300 embeddings"):
        retrieval_scores(embeddings, labels, NAMES)


def test_bad_queries_are_named():
    embeddings, labels = clusters()
    with pytest.raises(UsageError, match="3-dimensional"):
        retrieval_scores(embeddings, labels, NAMES, query=(np.zeros((2, 3)), [0, 1]))
    with pytest.raises(UsageError, match="at least one class of the queries"):
        retrieval_scores(embeddings, labels, NAMES, query=(embeddings, labels + 100))
    with pytest.raises(UsageError, match="query labels"):
        retrieval_scores(embeddings, labels, NAMES, query=(embeddings, labels[1:]))
    with pytest.raises(DivergedError, match="query embeddings"):
        retrieval_scores(embeddings, labels, NAMES, query=(embeddings * np.nan, labels))


@pytest.mark.parametrize("name", ["recall_at_0", "recall_at_k", "map_at_2"])
def test_unknown_names(name):
    with pytest.raises(UsageError, match=name):
        retrieval_scores(*clusters(), (name,))


# --- how it is found -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "dtype"), [(1, torch.float32), (3, torch.float64), (40, torch.float32), (2000, torch.float32)]
)
def test_smallest_equals_sorting(k, dtype):
    """Long rows (through minima of heaps), rows with many equal distances, and short rows."""
    generator = torch.Generator().manual_seed(k)
    rows = torch.randn(20, 5003, generator=generator, dtype=dtype)
    rows[5:10] = (10 * rows[5:10]).round()
    rows[10] = 0.0
    for distances in (rows, rows[:5], rows[:5, :2000].contiguous(), rows[5:]):
        near, columns = neighbours.smallest(distances, k)
        assert torch.equal(near, distances.sort(dim=1).values[:, :k])
        assert torch.equal(near, distances.gather(1, columns))
        assert all(len(set(row)) == k for row in columns.tolist())


@settings(max_examples=16)
@given(st.integers(0, 10**6), st.sampled_from([3, 40]), st.booleans())
def test_a_second_look_at_what_float32_cannot_tell_equals_ranking_in_float64(seed, classes, separate):
    """Rows at many close distances: vectors that are equal, and others that differ in the last digit."""
    rng = np.random.default_rng(seed)
    embeddings, labels = clusters(400, classes, dim=4, seed=seed)
    embeddings[:100] = embeddings[rng.integers(100, 130, size=100)]
    embeddings[200:300] = embeddings[100:200] + np.float32(1e-7) * rng.normal(size=(100, 4)).astype(np.float32)
    x, y = torch.from_numpy(embeddings), torch.from_numpy(labels)
    own, rows = (None, slice(0, 50)) if separate else (torch.arange(400), slice(None))
    needed = torch.from_numpy(rng.integers(1, 60, size=400))[rows]
    centred = x.double() - x.double().mean(dim=0)
    norms = neighbours.squared_norms(centred)
    distances = neighbours.exclude(neighbours.squared_euclidean(centred[rows], centred, norms), own, torch.arange(400))
    expected = retrieval.tied_ranking(distances, y == y[rows, None], 60, norms[rows])
    seen = torch.zeros(len(needed), dtype=torch.bool)
    for found, ranking in retrieval.euclidean_rankings(x[rows], y[rows], x, y, own, needed):
        assert not seen[found].any()
        seen[found] = True
        counts = torch.arange(int(needed.max())) < needed[found, None]
        for ours, theirs in zip(ranking, expected, strict=True):
            ours, theirs = ours[:, : counts.shape[1]], theirs[found, : counts.shape[1]]
            torch.testing.assert_close(ours[counts], theirs[counts], rtol=0, atol=1e-12)
    assert seen.all()


@pytest.mark.parametrize("own", [True, False])
def test_faiss_and_the_product_find_the_same_neighbours(own, monkeypatch):
    """With 40 copies of a query before itself too; without faiss the product serves."""
    pytest.importorskip("faiss")
    x = torch.from_numpy(clusters(700, dim=24)[0])
    x[:40] = x[40]
    itself = torch.arange(700) if own else None
    norms, ways = neighbours.squared_norms(x), []
    monkeypatch.setattr(neighbours, "FEWEST_NEIGHBOURS", 1)
    monkeypatch.setattr(neighbours, "FAISS_COORDINATES", 200)
    for least in (1, 10**9):
        monkeypatch.setattr(neighbours, "FAISS_FROM", least)
        found = list(neighbours.nearest(x, x, 9, itself))
        assert torch.equal(torch.cat([rows for rows, _, _ in found]), torch.arange(700))
        near, columns = (torch.cat([block[i] for block in found]) for i in (1, 2))
        direct = (x[:, None] - x[columns]).square().sum(-1)
        assert ((near - direct).abs() <= neighbours.rounding_error(near, norms, 24)).all()
        assert not own or not (columns == itself[:, None]).any()
        assert all(len(set(row)) == 9 for row in columns.tolist())
        ways.append(direct.sort(dim=1).values)
    torch.testing.assert_close(*ways, rtol=0, atol=1e-6)


@pytest.mark.parametrize("separate", [True, False])
def test_scores_do_not_depend_on_faiss(separate, monkeypatch):
    """Ties, near ties and duplicates are settled by exact distances, whoever found the neighbours."""
    pytest.importorskip("faiss")
    embeddings, labels = clusters(600, classes=150, dim=4)
    embeddings[:60] = embeddings[60:120]
    embeddings[300:400] = embeddings[200:300] + np.float32(1e-7)
    query = (embeddings[::7] + np.float32(0.01), labels[::7]) if separate else None
    scores = []
    monkeypatch.setattr(neighbours, "FEWEST_NEIGHBOURS", 1)
    monkeypatch.setattr(neighbours, "FAISS_COORDINATES", 200)
    for least in (1, 10**9):
        monkeypatch.setattr(neighbours, "FAISS_FROM", least)
        scores.append(retrieval_scores(embeddings, labels, CHECKED[:7], query))
    assert_close(scores[0], scores[1], 1e-13)


def test_without_faiss_the_product_serves(monkeypatch):
    import sys

    expected = retrieval_scores(*clusters(), CHECKED)
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.setattr(neighbours, "FAISS_FROM", 1)
    monkeypatch.setattr(neighbours, "FAISS_COORDINATES", 1)
    assert neighbours._faiss_knn(torch.device("cpu")) is None
    assert_close(retrieval_scores(*clusters(), CHECKED), expected, 1e-13)


# --- class by class --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("separate", [True, False])
def test_classes_weighted_by_their_queries_give_the_overall_score(separate):
    embeddings, labels = clusters(200, classes=30)
    labels[:3] = [500, -7, 77]  # alone: no queries, but references
    query = (embeddings[:50] + np.float32(0.1), np.where(np.arange(50) < 2, 999, labels[:50])) if separate else None
    found = per_class(embeddings, labels, CHECKED, query)
    overall = retrieval_scores(embeddings, labels, CHECKED, query)
    asked = np.array(labels if query is None else query[1])
    np.testing.assert_array_equal(found.classes, np.unique(asked))
    for name in CHECKED:
        weighted = np.nansum(found.scores[name] * found.queries) / found.queries.sum()
        assert weighted == pytest.approx(overall[name], abs=1e-12)
        np.testing.assert_array_equal(np.isnan(found.scores[name]), found.queries == 0)
    sizes = {c: (asked == c).sum() * ((labels == c).sum() >= (1 if separate else 2)) for c in found.classes}
    assert found.queries.tolist() == list(sizes.values())


def test_each_class_equals_the_mean_of_its_queries_asked_alone():
    embeddings, labels = clusters(90, classes=6)
    found = per_class(embeddings, labels)
    assert list(found.scores) == ["map_at_r", "precision_at_1"]
    distances = np.linalg.norm(embeddings[:, None].astype(np.float64) - embeddings, axis=2)
    np.fill_diagonal(distances, np.inf)
    relevant = labels[distances.argsort(axis=1)[:, :-1]] == labels[:, None]
    for name, scores in found.scores.items():
        for label, score in zip(found.classes, scores, strict=True):
            size = (labels == label).sum()
            each = [ranked_score(name, row.astype(int).tolist(), size - 1, size) for row in relevant[labels == label]]
            assert score == pytest.approx(np.mean(each), abs=1e-12)


def test_errors_of_classes_are_those_of_the_scores():
    with pytest.raises(UsageError, match="nmi"):
        per_class(*clusters(), ("nmi",))
    with pytest.raises(UsageError, match="two images"):
        per_class(np.zeros((3, 2)), [0, 1, 2])
