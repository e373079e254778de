"""The result of a proof as one page: readable offline, with a timeline of who held what."""

from __future__ import annotations

import html
from collections import defaultdict
from typing import Any, NamedTuple

from azlatch.proof.run import Result

_WIDTH, _LEFT, _ROW = 1_000, 90, 22
_COLOURS = ("#3b6ea5", "#b0582c", "#4f8a5b", "#8a5a9e", "#a08a2c", "#4a8a94", "#a34a63", "#6b6b6b")

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1100px; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.pass { color: #2c7a3f; } .fail { color: #b3261e; } .inconclusive { color: #8a6d00; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .15rem 1.5rem .15rem 0; vertical-align: top; }
td.value { font-variant-numeric: tabular-nums; }
svg { width: 100%; height: auto; background: #fafafa; border: 1px solid #ddd; } svg text { font: 11px sans-serif; }
@media (prefers-color-scheme: dark) { body { background: #1b1b1b; color: #ddd; } svg { background: #222; }
svg text { fill: #ccc; } }
"""


class _Span(NamedTuple):
    name: str
    instance: str
    fence: int
    start: float
    end: float
    ended: str


def page(result: Result) -> str:
    """The whole page; every text from outside is escaped, and it runs no script."""
    facts = result.to_dict()
    rows = "\n".join(
        f'<tr><td>{_text(key)}</td><td class="value">{_text(_shown(value))}</td></tr>'
        for key, value in facts.items()
        if key not in ("verdict", "reasons")
    )
    reasons = "".join(f"<li>{_text(reason)}</li>" for reason in result.reasons)
    what = "with latches" if result.plan.protected else "without a latch"
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>azlatch prove: {_text(result.outcome)}</title><style>{_STYLE}</style></head>
<body>
<h1>Proof of mutual exclusion {what}: <span class="{result.outcome}">{_text(result.outcome)}</span></h1>
<p>{result.plan.instances} processes read, changed and wrote back {result.plan.names} values for
{result.plan.seconds:g} s. {result.kills} were killed and {result.pauses} stopped between reading and writing.
{result.accepted:,} writes were accepted, {result.lost_updates:,} of them are not in the values any more.</p>
{f"<h2>Why</h2><ul>{reasons}</ul>" if reasons else ""}
<h2>Holds per name</h2>
{_timeline(result)}
<h2>Figures</h2>
<table>{rows}</table>
</body></html>
"""


def _spans(result: Result) -> list[_Span]:
    ends: dict[tuple[str, str], tuple[float, str]] = {}
    for event in result.events:
        if event.kind in ("released", "lost"):
            until = float(event.facts.get("until", event.at))
            ends[event.name, str(event.facts.get("nonce"))] = (until, event.kind)
    died = {(fault.name, fault.fence): fault.at for fault in result.faults if fault.kind == "kill"}
    spans = []
    for event in result.events:
        if event.kind != "granted" or event.fence is None:
            continue
        end = ends.get((event.name, str(event.facts.get("nonce"))))
        if end is None:
            at = died.get((event.name, event.fence), float(event.facts.get("until", event.at)))
            end = (at, "killed")
        spans.append(_Span(event.name, event.instance, event.fence, event.at, end[0], end[1]))
    return spans


def _timeline(result: Result) -> str:
    """Each name a row: bars are holds, their colour the instance, red edges a loss, black ends a kill."""
    spans = _spans(result)
    if not spans:
        return "<p>There were no holds.</p>"
    first, last = min(span.start for span in spans), max(span.end for span in spans)
    scale = (_WIDTH - _LEFT - 10) / max(last - first, 0.001)
    by_name: dict[str, list[_Span]] = defaultdict(list)
    for span in spans:
        by_name[span.name].append(span)
    colours = {
        instance: _COLOURS[number % len(_COLOURS)]
        for number, instance in enumerate(sorted({span.instance for span in spans}))
    }
    parts = []
    for row, (name, found) in enumerate(sorted(by_name.items())):
        y = 24 + row * _ROW
        parts.append(f'<text x="4" y="{y + 12}">{_text(name)}</text>')
        for span in found:
            x = _LEFT + (span.start - first) * scale
            width = max((span.end - span.start) * scale, 0.4)
            edge = {"lost": ' stroke="#b3261e" stroke-width="2"', "killed": ' stroke="#000" stroke-width="2"'}
            parts.append(
                f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{_ROW - 6}" '
                f'fill="{colours[span.instance]}"{edge.get(span.ended, "")}><title>{_text(span.name)} fence {span.fence} '
                f"of {_text(span.instance[:8])}: {span.end - span.start:.3f} s, {span.ended}</title></rect>"
            )
    seconds = int(last - first)
    step = max(seconds // 10, 1)
    for second in range(0, seconds + 1, step):
        x = _LEFT + second * scale
        parts.append(f'<text x="{x:.1f}" y="14">{second} s</text>')
    height = 30 + len(by_name) * _ROW
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="timeline of holds">{"".join(parts)}</svg>'
    )


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(each)}" for key, each in value.items())
    return (
        "-"
        if value is None
        else f"{value:,}"
        if isinstance(value, int) and not isinstance(value, bool)
        else str(value)
    )


def _text(value: object) -> str:
    shown = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in str(value))
    return html.escape(shown, quote=True)
