"""The result of a proof as one page: readable offline, with a timeline of who held what."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any, NamedTuple

from azlatch.proof.run import Result

_WIDTH, _LEFT, _ROW, _LABEL = 1_000, 90, 22, 13
#: How many of the holds that were released are drawn.
_MOST_DRAWN = 20_000
_COLOURS = ("#3b6ea5", "#b0582c", "#4f8a5b", "#8a5a9e", "#a08a2c", "#4a8a94", "#a34a63", "#6b6b6b")

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1100px; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.pass { color: #2c7a3f; } .fail { color: #b3261e; } .inconclusive { color: #8a6d00; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .15rem 1.5rem .15rem 0; vertical-align: top; }
td.value { font-variant-numeric: tabular-nums; }
svg { width: 100%; height: auto; background: #fafafa; border: 1px solid #ddd; }
svg text { font: 11px sans-serif; fill: #222; } svg .tick { text-anchor: middle; } svg path { stroke: #e4e4e4; }
rect.lost { stroke: #b3261e; stroke-width: 2; } rect.killed { stroke: #000; stroke-width: 2; }
rect.unknown { stroke: #8a6d00; stroke-width: 2; stroke-dasharray: 3; }
@media (prefers-color-scheme: dark) { body { background: #1b1b1b; color: #ddd; } svg { background: #222; }
svg { border-color: #444; } svg text { fill: #ccc; } svg path { stroke: #383838; } rect.killed { stroke: #fff; }
.pass { color: #6cc788; } .fail { color: #f2857d; } .inconclusive { color: #d9b84a; } }
"""


class _Span(NamedTuple):
    name: str
    instance: str
    fence: int
    start: float
    end: float
    ended: str


_Key = Callable[[_Span], str]


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
{result.accepted:,} writes were accepted; {result.lost_updates:,} of them were lost.</p>
{f"<h2>Why</h2><ul>{reasons}</ul>" if reasons else ""}
{_timelines(result)}
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
            killed_at = died.get((event.name, event.fence))
            known = killed_at is not None
            end = (killed_at or float(event.facts.get("until", event.at)), "killed" if known else "unknown")
        spans.append(_Span(event.name, event.instance, event.fence, event.at, end[0], end[1]))
    return spans


def _drawn(spans: list[_Span]) -> list[_Span]:
    """All of them, or of very many those that ended badly and an even choice of the rest."""
    rest = [span for span in spans if span.ended == "released"]
    step = -(-len(rest) // _MOST_DRAWN)
    return spans if step <= 1 else [*(span for span in spans if span.ended != "released"), *rest[::step]]


def _timeline(spans: list[_Span], rows: dict[str, str], row_of: _Key, colour_of: _Key, what: str) -> str:
    """Each row a name or an instance: bars are holds, red edges a loss, dark ones a kill."""
    first, last = min(span.start for span in spans), max(span.end for span in spans)
    scale = (_WIDTH - _LEFT - 10) / max(last - first, 0.001)
    height = 30 + len(rows) * _ROW
    colours = {
        key: _COLOURS[number % len(_COLOURS)] for number, key in enumerate(sorted({*map(colour_of, spans)}))
    }
    parts = []
    seconds = int(last - first)
    for second in range(0, seconds + 1, max(seconds // 10, 1)):
        x = _LEFT + second * scale
        parts.append(f'<path d="M{x:.1f} 18V{height}"/><text x="{x:.1f}" y="14" class="tick">{second} s</text>')
    places = {}
    for number, (row, label) in enumerate(rows.items()):
        places[row] = 24 + number * _ROW
        parts.append(f'<text x="4" y="{places[row] + 12}">{_text(label)}</text>')
    # What ended badly is drawn last, so that nothing hides it.
    for span in sorted(_drawn(spans), key=lambda span: span.ended != "released"):
        x = _LEFT + (span.start - first) * scale
        width = max((span.end - span.start) * scale, 0.5)
        parts.append(
            f'<rect x="{x:.2f}" y="{places[row_of(span)]}" width="{width:.2f}" height="{_ROW - 6}" '
            f'fill="{colours[colour_of(span)]}" class="{span.ended}"><title>{_text(span.name)}, fence {span.fence}, '
            f"instance {_text(span.instance[:8])}: {span.end - span.start:.3f} s, {span.ended}</title></rect>"
        )
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{what}">{"".join(parts)}</svg>'


def _timelines(result: Result) -> str:
    spans = _spans(result)
    if not spans:
        return "<h2>Holds</h2><p>There were no holds.</p>"
    pids = {event.instance: event.facts.get("pid") for event in result.events if event.kind == "open"}
    names = {name: name[:_LABEL] for name in sorted({span.name for span in spans})}
    instances: dict[str, str] = {}
    for span in sorted(spans, key=lambda span: span.start):
        instances.setdefault(span.instance, f"pid {pids.get(span.instance, span.instance[:8])}")
    per_name = _timeline(spans, names, _name_of, _instance_of, "holds per name")
    per_instance = _timeline(spans, instances, _instance_of, _name_of, "holds per instance")
    return f"""<h2>Holds per name</h2>
<p>Each bar is a hold. The colour is its instance; <span class="fail">a red edge</span> means that it was lost,
a dark edge that its holder was killed. Point at a bar for its fence.</p>
{per_name}
<h2>Holds per instance</h2>
<p>The same by process, in the order of their first hold; the colour is the name.</p>
{per_instance}"""


def _name_of(span: _Span) -> str:
    return span.name


def _instance_of(span: _Span) -> str:
    return span.instance


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
