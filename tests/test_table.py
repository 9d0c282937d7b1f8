"""Tables as plain text and as HTML."""

from bertc.base.diagnostics import Table

FIGURES = Table(
    ("part", "size", "note"),
    [("head", 1200, None), ("of a stage",), ("<b>", "3", "two\nlines\x1b")], "a <title>\nof two",
    ("a note\nof two",), (str, "{:,}".format),
)  # fmt: skip


def test_text_is_in_columns_with_figures_to_the_right():
    assert str(FIGURES).split("\n") == [
        "a <title>", "of two", "part   size  note", "head  1,200", "of a stage", "<b>       3  two",
        "             lines\\x1b", "", "a note", "of two",
    ]  # fmt: skip
    assert str(Table(("", ""), [("a", "1"), ("b", "22")])) == "a   1\nb  22"


def test_html_escapes_text_and_leaves_colours_to_the_page():
    html = FIGURES.html()
    assert html == FIGURES._repr_html_()
    for shown in (
        "&lt;title&gt;", '<th colspan="3" style="text-align:left">of a stage</th>', "<b>a &lt;",
        '<td style="text-align:right">1,200</td>', "two<br>lines\\x1b</td>",
    ):  # fmt: skip
        assert shown in html
    assert html.count("<small>a note<br>of two</small>") == 1
    assert "color" not in html
