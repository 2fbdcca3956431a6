import io

from hypothesis import given
from hypothesis import strategies as st

from twiceshy.cli.progress import Progress


def told(total: int, done: int) -> list[str]:
    stream = io.StringIO()
    progress = Progress(total, what="cases", to=stream)
    for _ in range(done):
        progress.advance()
    return stream.getvalue().splitlines()


def test_lines_say_what_is_done() -> None:
    assert told(4, 4) == ["25 % (1/4 cases)", "50 % (2/4 cases)", "75 % (3/4 cases)", "100 % (4/4 cases)"]


@given(st.integers(1, 500))
def test_line_for_each_tenth(total: int) -> None:
    lines = told(total, total)
    assert len(lines) == min(total, 10)
    assert lines[-1] == f"100 % ({total}/{total} cases)"
