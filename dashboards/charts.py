"""The divergence chart as geometry: where the points, bands, denominators and version changes of each panel stand. Templates draw it as SVG.

Drawn while the site is built and not by a chart library in the page: a panel is 3 kB instead of a 0.9 MB bundle that needs `unsafe-eval`, it shows without
JavaScript and on paper, and a test can read it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import msgspec

WIDTH, HEIGHT = 380, 172
LEFT, RIGHT, TOP, BOTTOM = 36, 10, 16, 132
_TOPS = (0.1, 0.25, 0.5, 1.0)
_LABELS = 15
"""Denominators that fit side by side."""


class Point(NamedTuple):
    """One night: `low` and `high` are the heights of its Wilson bounds; all None where nothing was replayed."""

    night: str
    x: float
    y: float | None
    low: float | None
    high: float | None
    replays: int
    diverged: int
    rate: str
    bounds: str


class VersionChange(NamedTuple):
    """What changed before a night: each entry `candidate 2.1.0 → 2.2.0`."""

    letter: str
    night: str
    x: float
    changed: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One workflow in one mode. lines and bands: one for each stretch of nights without a gap."""

    workflow: str
    mode: str
    points: list[Point]
    lines: list[str]
    bands: list[str]
    grid: list[tuple[float, str]]
    dates: list[tuple[float, str]]
    labelled: set[str]
    changes: list[VersionChange]
    step: float

    @property
    def latest(self) -> Point | None:
        """The last night on which anything was replayed."""
        return next((point for point in reversed(self.points) if point.replays), None)


def panels(divergence: Sequence[Mapping[str, Any]]) -> list[Panel]:
    """A panel for each (workflow, mode), all on one scale: a rate is read across panels.

    divergence: rows of `Divergence`, in order of (workflow, mode, night). A mode in which a workflow never replayed has no panel.
    """
    if not divergence:
        return []
    scale = _Scale.over(divergence)
    grouped = groupby(divergence, key=lambda row: (row["workflow"], row["mode"]))
    made = [_panel(workflow, mode, list(rows), scale) for (workflow, mode), rows in grouped]
    return [panel for panel in made if panel.latest is not None]


def percent(ratio: float) -> str:
    """A ratio as people say it; `<1 %` is not zero."""
    return "<1 %" if 0 < ratio < 0.01 else f"{100 * ratio:.0f} %"  # noqa: PLR2004 - one per cent


def day(night: str) -> str:
    """`Nov 4`."""
    return f"{date.fromisoformat(night):%b} {date.fromisoformat(night).day}"


class _Scale(NamedTuple):
    first: int
    last: int
    top: float

    @classmethod
    def over(cls, rows: Sequence[Mapping[str, Any]]) -> "_Scale":
        days = [date.fromisoformat(row["night"]).toordinal() for row in rows]
        highest = max(row["wilson_high"] or 0.0 for row in rows)
        return cls(min(days), max(days), next(top for top in _TOPS if highest <= top or top == _TOPS[-1]))

    @property
    def step(self) -> float:
        return (WIDTH - LEFT - RIGHT) / (self.last - self.first + 1)

    def x(self, night: str) -> float:
        return round(LEFT + (date.fromisoformat(night).toordinal() - self.first + 0.5) * self.step, 1)

    def y(self, rate: float) -> float:
        return round(BOTTOM - rate / self.top * (BOTTOM - TOP), 1)


def _panel(workflow: str, mode: str, rows: Sequence[Mapping[str, Any]], scale: _Scale) -> Panel:
    points = [_point(row, scale) for row in rows]
    stretches = list(_stretches(points))
    every = -(-len(points) // _LABELS)
    return Panel(
        workflow=workflow, mode=mode, points=points, lines=[_line(stretch) for stretch in stretches],
        bands=[_band(stretch) for stretch in stretches], grid=[(scale.y(part * scale.top), percent(part * scale.top)) for part in (0.0, 0.5, 1.0)],
        dates=[(point.x, day(point.night)) for point in points[:: max(1, -(-len(points) // 4))]],
        labelled={point.night for point in points[::every]}, changes=list(_changes(rows, scale)), step=round(scale.step, 1),
    )  # fmt: skip


def _point(row: Mapping[str, Any], scale: _Scale) -> Point:
    night, replays, diverged = row["night"], row["replays"], row["diverged"]
    if not replays:
        return Point(night, scale.x(night), None, None, None, 0, 0, "no replays", "")
    rate, low, high = diverged / replays, row["wilson_low"], row["wilson_high"]
    bounds = f"{100 * low:.0f} to {100 * high:.0f} %"
    return Point(
        night, scale.x(night), scale.y(rate), scale.y(low), scale.y(high), replays, diverged, percent(rate), bounds
    )


def _stretches(points: Iterable[Point]) -> Iterable[list[Point]]:
    """Runs of consecutive nights with replays: a line over a night without any would claim what nobody measured."""
    stretch: list[Point] = []
    for point in points:
        apart = bool(stretch) and _ordinal(point) - _ordinal(stretch[-1]) > 1
        if stretch and (point.y is None or apart):
            yield stretch
            stretch = []
        if point.y is not None:
            stretch.append(point)
    if stretch:
        yield stretch


def _ordinal(point: Point) -> int:
    return date.fromisoformat(point.night).toordinal()


def _line(stretch: Sequence[Point]) -> str:
    return " ".join(f"{point.x},{point.y}" for point in stretch)


def _band(stretch: Sequence[Point]) -> str:
    """The outline of the bounds; a single night gets a bar as wide as its dot."""
    if len(stretch) == 1:
        (point,) = stretch
        return f"{point.x - 3},{point.high} {point.x + 3},{point.high} {point.x + 3},{point.low} {point.x - 3},{point.low}"  # fmt: skip
    upper = [f"{point.x},{point.high}" for point in stretch]
    return " ".join([*upper, *(f"{point.x},{point.low}" for point in reversed(stretch))])


def _changes(rows: Sequence[Mapping[str, Any]], scale: _Scale) -> Iterable[VersionChange]:
    known = [(row["night"], msgspec.json.decode(row["versions"])) for row in rows]
    number = 0
    for (_, before), (night, after) in pairwise(known):
        changed = version_changes(before, after)
        if changed:
            yield VersionChange(chr(ord("a") + number % 26), night, scale.x(night), changed)
            number += 1


def version_changes(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """`name old → new` for every version that differs; long digests by their beginning."""
    names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return [f"{name} {_short(before.get(name))} → {_short(after.get(name))}" for name in names]


def _short(version: object) -> str:
    """A version as people tell it apart from another; of several, all."""
    if isinstance(version, list):
        return " + ".join(map(_short, version)) or "none"
    return "unknown" if version is None else str(version)[:12]
