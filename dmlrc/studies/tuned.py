"""Settings that searches found, at which studies compare methods: see tuned.toml."""

import tomllib
from importlib.resources import files

_FILE = tomllib.loads((files(__package__) / "tuned.toml").read_text(encoding="utf-8"))
CARS, GROCERY = _FILE["grids"]["cars"], _FILE["grids"]["grocery"]
OF_VARIANCE, OF_DEPTHS = _FILE["variance"], _FILE["depths"]
RATES, BETWEEN_THEM, DEPTH_RATES = _FILE["rates"], _FILE["between_them"], _FILE["depth_rates"]
SEARCHED_ON = {"first-runs/cars196crops-frozen": CARS, "first-runs/grocery-frozen": GROCERY}
"""The study whose searches found them."""


def grid_settings(dataset: str) -> dict[str, dict[str, float]]:
    """The settings for a data set, by method: its own if it was searched, else those of the cars."""
    return GROCERY if dataset == "grocery" else CARS
