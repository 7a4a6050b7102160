"""Study of a folder of one's own photographs: what is in it, what it suffices for, its entry in studies.toml."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dmlrc import paths
from dmlrc.data import folder as class_folders
from dmlrc.data.available import folder_path
from dmlrc.data.listing import HEIC_SUFFIXES
from dmlrc.errors import UsageError
from dmlrc.protocol import Study
from dmlrc.studies import catalogue, own

MOST_FOLDS = 4
"""Of the cross-validation, as in the paper; each wants 2 classes to validate on, and the test as many as all folds."""
_PER_FOLD = 4
_PER_IMAGE = 0.03
"""Seconds that the features of a photograph take on one thread: 5,421 took three minutes."""


@dataclass(frozen=True)
class Photos:
    """Contents of a folder: classes with the number of images of each, in the order of their names.

    left_out: how many files of the classes are no images that can be read, by the ending of their names.
    """

    path: Path
    sizes: Mapping[str, int]
    left_out: Mapping[str, int]

    @property
    def images(self) -> int:
        return sum(self.sizes.values())

    @property
    def folds(self) -> int:
        """Number of folds that the classes suffice for, at most `MOST_FOLDS`."""
        return min(MOST_FOLDS, len(self.sizes) // _PER_FOLD)


def look(path: str) -> Photos:
    """List what is in a folder with one sub-folder a class; the images are not opened.

    Raises UsageError for too few classes, none with two images, or a name that is no text, and as
    `dmlrc.data.folder.read_class_folders` does.
    """
    home = folder_path(f"folder:{path}")
    try:
        str(home).encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the name of folder {str(home)!a} is no valid text (UTF-8): rename it") from error
    listing = class_folders.read_class_folders(home)
    counts = np.bincount(listing.labels, minlength=len(listing.class_names)).tolist()
    photos = Photos(home, dict(zip(listing.class_names, counts, strict=True)), class_folders.left_out(home))
    if photos.folds < 2:
        raise UsageError(
            f"folder {home} has {len(counts)} class{'es' * (len(counts) > 1)}, and {2 * _PER_FOLD} are needed: 4 to "
            "train and choose on, in 2 folds, and 4 to test on; add classes, or divide some into what their photos show"
        )
    if max(counts) < 2:
        raise UsageError(f"every class in {home} has a single photo: to be found, a photo needs another of its class")
    return photos


def study_of(photos: Photos, name: str | None, numbers: Mapping[str, int]) -> tuple[Study, str]:
    """The study of these photographs, and what is to be added to studies.toml for it, "" where it stands there already.

    name: default made from the folder's. numbers: those of folds, trials and reruns that are given.

    Raises UsageError where another study has the name, or one that would mix with it, or where this one is there with
    other numbers.
    """
    name = name or re.sub(r"[^\w-]+", "-", photos.path.name).strip("-") or "photos"
    there = catalogue.own_studies().get(name)
    if there is None:
        try:
            catalogue.check_new_name(name)
        except UsageError as error:
            raise UsageError(f"{error}, with --name") from None
        folds = {"folds": photos.folds} if photos.folds < MOST_FOLDS else {}
        settings = {"dataset": f"folder:{photos.path}", "class_order": "random", **folds, **numbers}
        return catalogue.changed("grocery-quick", settings, name)
    if not there.dataset.startswith("folder:") or folder_path(there.dataset) != photos.path:
        raise UsageError(f"study {name!r} in studies.toml is of other images: give this one another name with --name")
    present = {"folds": there.protocol.folds, "trials": there.budget.trials, "reruns": there.budget.reruns}
    if changed := [key for key, value in numbers.items() if present[key] != value]:
        raise UsageError(
            f"study {name!r} in studies.toml has {present[changed[0]]} {changed[0]}: change it there, or give this one "
            "another name with --name"
        )
    return there, ""


def plan(photos: Photos, study: Study, workers: int = 1) -> list[str]:
    """List what is there and what will be done by so many workers, a line each."""
    sizes, classes, folds = photos.sizes.values(), len(photos.sizes), study.protocol.folds
    spread = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    rows = [f"photos    {photos.images:,} in {classes} classes, {spread} of each"]
    if alone := [name for name, size in photos.sizes.items() if size == 1]:
        rows.append(f"          a single photo: {', '.join(alone[:5])}{', ...' * (len(alone) > 5)}; it cannot be found")
    if photos.left_out:
        of_each = ", ".join(f"{count} {suffix or 'without an ending'}" for suffix, count in photos.left_out.items())
        rows.append(f"          left out, since they cannot be read as images: {of_each}")
        if photos.left_out.keys() & set(HEIC_SUFFIXES):
            rows.append("          .heic is read where dmlrc is installed with its extra 'heic'")
    half = classes // 2
    rows.append(f"classes   {half} to train and choose on, in {folds} folds, {classes - half} others to test on")
    if folds < MOST_FOLDS:
        rows.append(f"          {MOST_FOLDS} folds, as in the paper, want {MOST_FOLDS * _PER_FOLD} classes")
    budget = study.budget
    numbers = [f"{n} {what}{'s' * (n > 1)}" for n, what in ((budget.trials, "trial"), (budget.reruns, "rerun"))]
    rows.append(f"losses    {len(study.methods)}, each with {' and '.join(numbers)}")
    cores = os.cpu_count() or 1
    features, runs = own.duration(photos.images * _PER_IMAGE / cores), own.expected(study, min(workers, cores))
    rows.append(f"time      {features} for the features, once, then {runs or study.expected}")
    rows.append(f"study     {study.name}, in {paths.home() / 'studies.toml'}")
    return rows
