"""The table as Markdown, for the documentation.

`python -m azlatch.contracts.page docs/contracts/classify.md` renews it there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from azlatch.contracts.row import Key, Row
from azlatch.contracts.sources import SOURCES
from azlatch.contracts.table import TABLE
from azlatch.contracts.words import words_of

BEGIN = "<!-- the table, made from the code: python -m azlatch.contracts.page PAGE -->"
END = "<!-- the end of the table -->"
_AGAIN = {"yes": "yes", "no": "no", "reads": "reads", "look": "it depends"}


def code(key: Key) -> str:
    """How an answer is written in the documentation: `404/1002`, `429/other`, `any/5401`, `no answer`."""
    status, substatus = key
    if status == 0:
        return "no answer"
    return f"{'any' if status is None else status}/{'other' if substatus is None else substatus}"


def row_line(key: Key, row: Row) -> str:
    """The line of an answer."""
    wait = "" if row.wait_s is None else f"{row.wait_s:g}"
    cells = (f"`{code(key)}`", row.name, f"`{row.kind}`", row.who, _AGAIN[row.retry], wait, row.source)
    return "| " + " | ".join(cells) + " |"


def lines() -> list[str]:
    """Every answer, what each means and what to do about it, and the sources."""
    words = words_of("en")
    ordered = sorted(TABLE, key=lambda key: (key[0] or 999 if key[0] != 0 else 0, key[1] is None, key[1] or 0))
    found = ["### Every answer", ""]
    found += [
        "| answer | name | kind | whose job | send again | first wait, s | source |",
        "|---|---|---|---|---|---|---|",
    ]
    found += [row_line(key, TABLE[key]) for key in ordered]
    found += ["", "### What they mean, and what to do", "", "| answers | cause | next step |", "|---|---|---|"]
    for text in dict.fromkeys(TABLE[key].text for key in ordered):
        codes = [TABLE[key].name if key[0] == 0 else code(key) for key in ordered if TABLE[key].text == text]
        found.append(f"| {', '.join(codes)} | {words.texts[text].cause} | {words.texts[text].next_step} |")
    found += ["", "### Sources", "", "| | |", "|---|---|"]
    return found + [f"| {key} | {where} |" for key, where in SOURCES.items()]


def renewed(page: str) -> str:
    """A page with its table as the code has it now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join([before + BEGIN, "", *lines(), "", END + after])


if __name__ == "__main__":
    for name in sys.argv[1:]:
        place = Path(name)
        place.write_text(renewed(place.read_text(encoding="utf-8")), encoding="utf-8")
