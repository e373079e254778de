"""Functions on places (GeoJSON points and polygons, longitude first) and on vectors.

Distances are on a sphere of the mean radius of the earth; the service has an ellipsoid: up to 0.6 % differ.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from azlatch.lab.cosmos.sql.functions.table import Context, Table
from azlatch.lab.cosmos.sql.values import UNDEFINED, double, is_number, number

SPACE = Table()

_RADIUS_M = 6_371_008.8
_Place = tuple[float, float]


def _place(value: Any) -> _Place | None:
    if type(value) is not list or len(value) < 2 or not all(map(is_number, value[:2])):
        return None
    longitude, latitude = value[:2]
    return (longitude, latitude) if -180 <= longitude <= 180 and -90 <= latitude <= 90 else None


def _point(value: Any) -> _Place | None:
    if type(value) is not dict or value.get("type") != "Point":
        return None
    return _place(value.get("coordinates"))


def _rings(value: Any) -> list[list[_Place]] | None:
    """The outline of a polygon and its holes."""
    if type(value) is not dict or value.get("type") != "Polygon" or type(value.get("coordinates")) is not list:
        return None
    rings = []
    for ring in value["coordinates"]:
        places = [_place(each) for each in ring] if type(ring) is list else []
        known = [each for each in places if each is not None]
        if len(known) < 4 or len(known) != len(places) or known[0] != known[-1]:
            return None
        rings.append(known)
    return rings or None


def _inside(place: _Place, ring: list[_Place]) -> bool:
    x, y = place
    inside = False
    for (x1, y1), (x2, y2) in pairwise(ring):
        if (y1 > y) != (y2 > y) and x < (x2 - x1) * (y - y1) / (y2 - y1) + x1:
            inside = not inside
    return inside


@SPACE.add("ST_DISTANCE", 2)
def _distance(one: Any, other: Any) -> Any:
    first, second = _point(one), _point(other)
    if first is None or second is None:
        return UNDEFINED
    longitude, latitude = (math.radians(b - a) for a, b in zip(first, second, strict=True))
    north = math.cos(math.radians(first[1])) * math.cos(math.radians(second[1]))
    half = math.sin(latitude / 2) ** 2 + north * math.sin(longitude / 2) ** 2
    return number(2 * _RADIUS_M * math.asin(math.sqrt(min(1.0, half))))


@SPACE.add("ST_WITHIN", 2, context=True)
def _within(context: Context, one: Any, other: Any) -> Any:
    place, rings = _point(one), _rings(other)
    if place is None or rings is None:
        return UNDEFINED
    context.meter.spend(sum(map(len, rings)))
    return _inside(place, rings[0]) and not any(_inside(place, hole) for hole in rings[1:])


@SPACE.add("ST_ISVALID", 1)
def _is_valid(value: Any) -> bool:
    return _point(value) is not None or _rings(value) is not None


@SPACE.add("VectorDistance", 2, 4, context=True)
def _vector_distance(context: Context, one: Any, other: Any, _exact: Any = False, options: Any = None) -> Any:
    if type(one) is not list or type(other) is not list or len(one) != len(other) or not one:
        return UNDEFINED
    if not all(map(is_number, one)) or not all(map(is_number, other)):
        return UNDEFINED
    context.meter.spend(len(one))
    wanted = options.get("distanceFunction", "cosine") if type(options) is dict else "cosine"
    kind = wanted.lower() if type(wanted) is str else ""
    one, other = list(map(double, one)), list(map(double, other))
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    if kind == "dotproduct":
        return number(float(dot))
    if kind == "euclidean":
        return number(math.dist(one, other))
    length = math.hypot(*one) * math.hypot(*other)
    return number(dot / length) if kind == "cosine" and length else UNDEFINED
