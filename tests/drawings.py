"""Figures drawn without a file, in a quarter of the time; what fails as they are drawn fails here too."""

from matplotlib.figure import Figure
from matplotlib.text import Text

EMPTY = '<svg xmlns="http://www.w3.org/2000/svg" width="9pt" height="9pt"></svg>'


def drawn(figure: Figure) -> list[str]:
    """Draw the figure, and return the texts in it."""
    figure.set_layout_engine("none")
    figure.draw_without_rendering()
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def without_a_file(figure: Figure, salt: str) -> str:
    """In the place of `svg.to_svg` where nobody looks at the picture."""
    drawn(figure)
    return EMPTY
