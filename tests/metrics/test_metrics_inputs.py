"""What `metrics.evaluate` accepts, and the sentence for what it does not."""

import numpy as np
import pandas as pd
import pytest
import torch

from dmlrc import metrics
from dmlrc.errors import UsageError

NAMES = ("map_at_r", "jsd", "num_excluded_queries")
EMBEDDINGS = np.random.default_rng(0).integers(-8, 9, size=(12, 4)).astype(np.float32)  # exact in 8 bits too
LABELS = np.arange(12) // 3
TENSOR = torch.from_numpy(EMBEDDINGS)


@pytest.mark.parametrize(
    "embeddings",
    [
        EMBEDDINGS.tolist(),
        tuple(map(tuple, EMBEDDINGS)),
        pd.DataFrame(EMBEDDINGS),
        *(EMBEDDINGS.astype(dtype) for dtype in (np.float16, np.int8, ">f4", ">f8")),
        *(TENSOR.to(dtype) for dtype in (torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.int16)),
        torch.nn.Parameter(TENSOR),
    ],
)
def test_embeddings_of_every_kind(embeddings):
    assert metrics.evaluate(embeddings, LABELS, NAMES) == metrics.evaluate(EMBEDDINGS, LABELS, NAMES)


@pytest.mark.parametrize(
    "labels",
    [
        LABELS.tolist(),
        *(LABELS.astype(dtype) for dtype in ("int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64", ">i4")),
        *(torch.from_numpy(LABELS).to(dtype) for dtype in (torch.int8, torch.uint8, torch.uint32, torch.uint64)),
        LABELS.astype(np.uint64) + np.uint64(2**64 - 4),
        pd.Series(LABELS),
    ],
)
def test_integer_labels_of_every_width(labels):
    assert metrics.evaluate(EMBEDDINGS, labels, NAMES) == metrics.evaluate(EMBEDDINGS, LABELS, NAMES)
    assert metrics.per_class(EMBEDDINGS, labels).queries.tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64])
def test_two_classes_are_never_a_mask(dtype):
    two = LABELS > 1
    expected = metrics.evaluate(EMBEDDINGS, np.where(two, 7, -3))
    assert metrics.evaluate(EMBEDDINGS, two.astype(dtype)) == expected
    assert metrics.evaluate(EMBEDDINGS, torch.from_numpy(two.astype(dtype))) == expected


@pytest.mark.parametrize(
    ("embeddings", "sentence"),
    [
        (torch.zeros(12, 4, dtype=torch.complex64), "embeddings must be real"),
        (EMBEDDINGS.astype(object), "embeddings must be an array or a tensor of numbers, not an array of object"),
        ([[1.0, 2.0], [3.0]], "embeddings must be an array or a tensor of numbers, not list"),
        (None, "embeddings must be an array or a tensor of numbers, not NoneType"),
        (TENSOR * 1e-30, "embeddings hold numbers below 1e-15 alone: divide them by a constant"),
    ],
)
def test_embeddings_that_hold_no_numbers(embeddings, sentence):
    for function in (metrics.evaluate, metrics.per_class, metrics.evaluate_binary):
        with pytest.raises(UsageError, match=sentence):
            function(embeddings, LABELS)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (LABELS.astype(float), "labels must be integers, not torch.float64"),
        (list("aaabbbcccddd"), "labels must be an array or a tensor of numbers, not list"),
        (LABELS[:, None], r"labels must have the shape \(12,\)"),
    ],
)
def test_labels_that_are_none(labels, sentence):
    for call in (
        lambda: metrics.evaluate(EMBEDDINGS, labels, NAMES),
        lambda: metrics.per_class(EMBEDDINGS, LABELS, query=(EMBEDDINGS, labels)),
    ):
        with pytest.raises(UsageError, match=sentence):
            call()
