"""Omniglot: 1,623 handwritten characters of 50 alphabets, each drawn by 20 people, 32,460 images of 105 x 105 pixels.

Lake, Salakhutdinov and Tenenbaum, Human-level concept learning through probabilistic program induction, Science 2015.
Layout: `images_background/<Alphabet>/characterNN/*.png` (30 alphabets) and `images_evaluation/...` (20). The files are
black strokes on white; the study stores them inverted, light strokes on dark as in glyphs, and reduced to 28 x 28.
"""

from pathlib import Path

from dmlrc.data.listing import Listing, from_class_folders, sub_folders

_PARTS = ("images_background", "images_evaluation")


def read(folder: Path) -> Listing:
    """Background then evaluation, alphabets and characters in name order; names are "Alphabet/characterNN"."""
    characters = [c for part in _PARTS for alphabet in sub_folders(folder / part) for c in sub_folders(alphabet)]
    return from_class_folders(characters, [f"{c.parent.name}/{c.name}" for c in characters])
