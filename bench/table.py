"""The table that the bench prints, and the same numbers as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Row:
    label: str
    #: By the names of the section's columns.
    values: tuple[float, ...]
    #: Of azlatch to this one, in the first column; None for azlatch itself.
    ratio: float | None = None
    remark: str = ""


@dataclass
class Section:
    """One measure."""

    title: str
    columns: tuple[str, ...]
    unit: str
    #: "higher" or "lower".
    better: str
    digits: int
    rows: list[Row] = field(default_factory=list)

    def compare(self, us: str, rows: Iterable[Row]) -> Section:
        """Adds the rows, each with the ratio of azlatch to it."""
        rows = list(rows)
        ours = next(row.values[0] for row in rows if row.label == us)
        for row in rows:
            ratio = None if row.label == us or not row.values[0] else ours / row.values[0]
            self.rows.append(Row(row.label, row.values, ratio, row.remark))
        return self

    def show(self, rows: Iterable[Row]) -> Section:
        """Adds the rows as they are."""
        self.rows.extend(rows)
        return self

    def as_json(self) -> dict[str, object]:
        return {
            "title": self.title,
            "unit": self.unit,
            "better": self.better,
            "rows": [
                {**asdict(row), "values": dict(zip(self.columns, row.values, strict=True))} for row in self.rows
            ],
        }


def lines(sections: list[Section]) -> Iterable[str]:
    """The table, ready to print."""
    wide = max(len(row.label) for section in sections for row in section.rows) + 2
    for section in sections:
        head = "".join(f"{column:>12}" for column in section.columns)
        yield ""
        yield f"{section.title} ({section.unit}, {section.better} is better)"
        yield f"  {'':<{wide}}{head:<24}{'azlatch / it':>14}"
        for row in section.rows:
            values = "".join(f"{value:>12,.{section.digits}f}" for value in row.values)
            ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
            yield f"  {row.label:<{wide}}{values:<24}{ratio:>14}  {row.remark}".rstrip()
