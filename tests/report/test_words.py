"""What the counter of words counts; and that no page gives its reader more than it should."""

from pathlib import Path

from dmlrc.report import words
from dmlrc.report.method import notes

PAGE = """# Two words

```{admonition} In short
:class: tip
- **Three more words**
```

| a | table |
|---|---|
| of | words |

```python
no = "text of code"
```

```{math}
x = y
```

$$
a = b
$$

MAP@R rises by {glue:text}`gain:+.1f` points ({doc}`here <04_which_loss_wins>`).
"""


def test_text_counts_and_tables_code_and_formulas_do_not():
    heading = ["Two", "words"]
    box = ["Three", "more", "words"]
    sentence = ["MAP@R", "rises", "by", "role", "points", "role"]
    assert words.count_words(PAGE) == len(heading + box + sentence)


def test_pages_over_their_limits_are_named():
    few = {"00_introduction": 300, "04_which_loss_wins": 900, "glossary": 3_900, "method": 200}
    assert words.too_long(few) == []
    many = few | {"04_which_loss_wins": 1_101, "glossary": 4_001}
    assert words.too_long(many) == [
        "04_which_loss_wins: 1101 of 1100 words",
        "the reference pages together: 4,001 of 4,000 words",
    ]
    chapters = {f"{number:02}_a": 1_100 for number in range(1, 12)}
    assert words.too_long(chapters) == ["the chapters together: 12,100 of 12,000 words"]


def test_no_page_of_the_book_is_too_long(monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(Path(__file__).parents[2]))
    assert words.too_long(words.words_by_page()) == []


def test_notes_count_where_pages_show_them(monkeypatch):
    monkeypatch.setenv("DMLRC_HOME", str(Path(__file__).parents[2]))
    counted, noted = words.words_by_page(), words.noted_texts()
    monkeypatch.setattr(words, "noted_texts", dict)
    bare = words.words_by_page()
    assert {name: counted[name] - bare[name] for name in counted if counted[name] != bare[name]} == {
        name: words.count_words(text) for name, text in noted.items()
    }
    assert all(note.idea in noted[notes.OTHERS_PAGE] for note in notes.OTHERS.values())
    assert "Random images, whatever their classes." in noted[notes.OTHERS_PAGE]
    assert max(words.count_words(note.idea) for note in notes.NOTES.values()) < words.count_words(noted["method"])
