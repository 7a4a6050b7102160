"""Grocery Store: 5,421 smartphone photographs of fruit, vegetables and cartons, 81 fine-grained classes.

Klasson, Zhang and Kjellström, A Hierarchical Grocery Store Image Dataset with Visual and Semantic Labels, WACV 2019.
Layout: `dataset/{train,val,test}.txt` with lines "path, fine id, coarse id", and `dataset/classes.csv`. The three
lists are joined, because the study splits by class; they stay visible as the partition. Classes were photographed in
short series, so nearest neighbours are often sister shots of one shelf.
"""

import csv
from pathlib import Path

import numpy as np

from dmlrc.data.listing import Listing

_PARTS = ("train", "val", "test")


def read(folder: Path) -> Listing:
    """All images, train then val then test; labels are the fine class ids 0..80."""
    dataset = folder / "dataset"
    rows = [(part, *line) for part in _PARTS for line in _csv_rows(dataset / f"{part}.txt")]
    names = {int(fine_id): name for name, fine_id, *_ in _csv_rows(dataset / "classes.csv")[1:]}
    return Listing(
        files=tuple(dataset / path for _, path, *_ in rows),
        labels=np.array([int(fine_id) for _, _, fine_id, _ in rows], dtype=np.int64),
        class_names=tuple(names[i] for i in range(len(names))),
        partition=np.array([part for part, *_ in rows]),
    )


def _csv_rows(file: Path) -> list[list[str]]:
    with file.open(newline="", encoding="utf-8") as stream:
        return [[cell.strip() for cell in row] for row in csv.reader(stream) if row]
