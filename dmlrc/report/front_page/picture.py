"""The first page's picture as a file, for pages that are not of the book.

python -m dmlrc.report.front_page.picture book/_static/claimed-and-measured.svg
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt

from dmlrc.report import editions, svg
from dmlrc.report.front_page import figures, page

NAME = "claimed-and-measured"


def front_picture() -> str:
    """The picture of the published studies as SVG, dark on white."""
    drawing = figures.claimed_and_measured(page.leads(editions.load_edition(editions.PUBLISHED)), figures.FOUND)
    try:
        return svg.to_svg(drawing, NAME)
    finally:
        plt.close(drawing)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(front_picture(), encoding="utf-8")
