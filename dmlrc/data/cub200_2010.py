"""CUB-200 (2010), Caltech-UCSD Birds 200: 6,033 photographs of 200 bird species, 100 for training and 100 for testing.

Welinder, Branson, Mita, Wah, Schroff, Belongie and Perona, Caltech-UCSD Birds 200, CNS-TR-2010-001, Caltech 2010.
Layout: `images/NNN.Species_name/*.jpg`, NNN from 001 to 200. It is the first edition of the set that CUB200 in the
papers means (Wah et al. 2011, `cub200`): the same species, half the images. The study's copy holds a square of 224 x
224 pixels around each bird, not the whole photograph, so its numbers are not comparable with those of the papers.
"""

from pathlib import Path

from dmlrc.data.listing import Listing, from_class_folders, sub_folders


def read(folder: Path) -> Listing:
    """All images by species and then by file name; species 001..200 become labels 0..199."""
    species = sub_folders(folder / "images")
    return from_class_folders(species, [each.name for each in species])
