import re
from typing import Any

from dashboards import charts
from dashboards.charts import BOTTOM, LEFT, RIGHT, TOP, WIDTH, panels, percent


def night(day: int, *, replays: int = 20, diverged: int = 2, high: float = 0.3, **versions: str) -> dict[str, Any]:
    bounds = {"wilson_low": 0.01, "wilson_high": high} if replays else {"wilson_low": None, "wilson_high": None}
    listed = ",".join(f'"{name}":"{version}"' for name, version in ({"candidate": "1"} | versions).items())
    return {
        "night": f"2026-11-{day:02}", "workflow": "refund", "mode": "full", "replays": replays, "diverged": diverged if replays else 0,
        "versions": f"{{{listed}}}", **bounds,
    }  # fmt: skip


def test_point_stands_at_its_rate() -> None:
    (panel,) = panels([night(1, diverged=0), night(2, diverged=5), night(3, diverged=10)])
    assert [point.y for point in panel.points] == [BOTTOM, (BOTTOM + TOP) / 2, TOP]
    assert [label for _, label in panel.grid] == ["0 %", "25 %", "50 %"]
    assert all(LEFT < point.x < WIDTH - RIGHT for point in panel.points)


def test_scale_is_shared_by_panels() -> None:
    low, high = panels([night(1), night(1, high=0.9) | {"workflow": "scheduling"}])
    assert low.grid == high.grid
    assert low.grid[-1] == (TOP, "100 %")


def test_line_breaks_where_nothing_ran() -> None:
    (empty,) = panels([night(1), night(2), night(3, replays=0), night(4)])
    (missing,) = panels([night(1), night(2), night(4)])
    assert [len(line.split()) for line in empty.lines] == [2, 1]
    assert [len(line.split()) for line in missing.lines] == [2, 1]
    assert empty.points[2].y is None


def test_band_goes_there_and_back() -> None:
    (panel,) = panels([night(1), night(2)])
    numbers = [tuple(map(float, pair.split(","))) for pair in panel.bands[0].split()]
    one, two = panel.points
    assert numbers == [(one.x, one.high), (two.x, two.high), (two.x, two.low), (one.x, one.low)]


def test_version_changes_are_lettered() -> None:
    rows = [night(1), night(2, candidate="2"), night(3, candidate="2"), night(4, candidate="2", catalog="v" * 40)]
    (panel,) = panels(rows)
    assert [(change.letter, change.night, change.changed) for change in panel.changes] == [
        ("a", "2026-11-02", ["candidate 1 → 2"]),
        ("b", "2026-11-04", [f"catalog unknown → {'v' * 12}"]),
    ]


def test_several_versions_are_all_named() -> None:
    rows = [night(1), night(2)]
    rows[1]["versions"] = '{"candidate":["1","2"]}'
    assert panels(rows)[0].changes[0].changed == ["candidate 1 → 1 + 2"]


def test_every_denominator_of_a_fortnight_is_shown() -> None:
    (fortnight,) = panels([night(day) for day in range(1, 15)])
    (month,) = panels([night(day) for day in range(1, 31)])
    assert len(fortnight.labelled) == 14
    assert len(month.labelled) == 15


def test_mode_without_replays_has_no_panel() -> None:
    assert panels([night(1, replays=0), night(2, replays=0)]) == []
    assert panels([]) == []


def test_small_rate_is_not_zero() -> None:
    assert [percent(rate) for rate in (0.0, 0.004, 0.1, 1.0)] == ["0 %", "<1 %", "10 %", "100 %"]


def test_coordinates_are_plain_numbers() -> None:
    (panel,) = panels([night(day) for day in range(1, 8)])
    assert re.fullmatch(r"[\d., ]+", " ".join([*panel.lines, *panel.bands]))
    assert charts.HEIGHT > BOTTOM
