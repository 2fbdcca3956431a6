import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import chain
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from dashboards.build import build
from dashboards.catalog import slug
from dashboards.published import HalfPublished
from dashboards.writing import Manifest, NoSite
from published_site import RUN_TABLES, Rows, hostile_tables, published
from published_stories import LAST, NIGHTS, STORIES
from tasks.publish.schema import Runs
from tasks.replay.schema import Replays
from tasks.sign.schema import Signatures
from twiceshy.errors import FormatError, InputError

CSP = "default-src 'self' 'unsafe-inline' data:; connect-src 'none'"
HOSTILE = "</td></details><!--<img src=x onerror=alert(1)>\"'><script>alert(2)</script>{{7*7}}\u202e@everyone"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("published")
    published(root)
    return root


@pytest.fixture(scope="module")
def site(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "site"
    build(data, out)
    return out


@pytest.fixture
def own(data: Path, tmp_path: Path) -> Path:
    """A copy that may be broken."""
    return Path(shutil.copytree(data, tmp_path / "own"))


class Page(HTMLParser):
    """Links, ids, tags, commands to copy, and text of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.commands: list[str] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = dict(attrs)
        self.tags.append(tag)
        self.links += [value for name in ("href", "src") if (value := held.get(name))]
        self.commands += [value for name in ("data-copy",) if (value := held.get(name))]
        self.ids += [held["id"] or ""] if "id" in held else []

    def handle_data(self, data: str) -> None:
        self.text += data


def pages(site: Path) -> Iterator[tuple[Path, Page]]:
    for path in sorted(site.rglob("*.html")):
        yield path, Page(path)


def digests(site: Path) -> dict[str, str]:
    return {
        path.relative_to(site).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in site.rglob("*")
        if path.is_file()
    }


def case_page(site: Path, name: str) -> Path:
    return site / "sig" / f"{slug(name)}.html"


def test_equal_tables_give_equal_bytes(data: Path, site: Path, tmp_path: Path) -> None:
    build(data, tmp_path / "again")
    assert digests(tmp_path / "again") == digests(site)


def test_manifest_names_every_file(data: Path, site: Path) -> None:
    manifest = json.loads((site / "manifest.json").read_text(encoding="utf-8"))
    listed = manifest.pop("files")
    assert listed == {name: digest for name, digest in digests(site).items() if name != "manifest.json"}
    latest = json.loads((data / "LATEST.json").read_text(encoding="utf-8"))
    assert (manifest["publication"], manifest["generation"]) == (latest["digest"], latest["generation"])
    assert manifest["counts"]["failed"] == 1
    assert manifest["counts"]["catalog"] == len(STORIES) + 2
    assert manifest["counts"]["nights"] == len(NIGHTS)


def test_every_link_leads_somewhere(site: Path) -> None:
    found = dict(pages(site))
    for path, page in found.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme == "data":
                continue
            assert (parts.scheme, parts.netloc) == ("", ""), f"{path.name} reaches outside: {link}"
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file(), f"{path.name} links to {link}"
            if parts.fragment and "=" not in parts.fragment and target in found:
                assert parts.fragment in found[target].ids, f"{path.name} links to {link}"


def test_ids_differ_within_a_page(site: Path) -> None:
    for path, page in pages(site):
        assert len(page.ids) == len(set(page.ids)), path.name


def test_every_page_forbids_the_network(site: Path) -> None:
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert CSP in text, path.name
        # Names of XML dialects are no addresses to go to.
        assert re.findall(r"https?://(?!www\.w3\.org/)", text) == [], path.name


def test_nothing_is_told_as_none(site: Path) -> None:
    assert [path.name for path, page in pages(site) if re.search(r"\bNone\b", page.text)] == []


def test_index_says_what_failed(site: Path) -> None:
    page = Page(site / "index.html")
    for said in ("1 case failed", "1 regressed", "Exit 1", "a refund above the order's limit needs an approval token"):
        assert said in page.text


def test_failed_case_comes_first_and_links_to_its_step(site: Path) -> None:
    index = (site / "index.html").read_text(encoding="utf-8")
    rows = re.findall(r'<tr data-s="(\w+)"', index)
    assert rows == sorted(rows, key=["failed", "error", "diverged", "not_run", "no_case", "passed"].index)
    page = Page(case_page(site, STORIES[0].name))
    assert page.links.count("#step-4") >= 2
    assert "step-4" in page.ids


def test_page_tells_both_sides_of_middleware(site: Path) -> None:
    text = Page(case_page(site, STORIES[0].name)).text
    assert "raw → shown" in text
    assert "removed policy_limit_gbp" in text
    case, candidate = "refund-over-limit-missing-approval-at-post-tool-hook-strip", "refund:approval_removed"
    assert f"twiceshy replay {case} -c {candidate} --mode full -v" in text
    assert f"twiceshy break {case} -c {candidate}" in text


def test_commands_of_pages_are_commands(site: Path) -> None:
    commands = {command for _, page in pages(site) for command in page.commands}
    assert commands
    flags = defaultdict(set)
    for _, verb, *words in map(shlex.split, commands):
        flags[verb] |= {word for word in words if word.startswith("-")}
    for verb, used in flags.items():
        told = subprocess.run(
            [Path(sys.executable).with_name("twiceshy"), verb, "--help"], capture_output=True, text=True, check=True
        )
        assert used <= set(re.findall(r"--?[a-z]+", told.stdout))


def test_page_names_divergence_in_words(site: Path) -> None:
    text = Page(case_page(site, "confirmed-without-reschedule@final")).text
    assert "this call was recorded, but under other writes" in text
    assert "recorded steps that the replay never came to" in text


def test_broken_trial_counts_as_killed(site: Path) -> None:
    assert "guard.off:refund-approval killed" in " ".join(Page(case_page(site, STORIES[0].name)).text.split())


def test_signature_without_case_says_so(site: Path) -> None:
    assert "no case is in the catalog" in Page(case_page(site, "slots-timeout@tool")).text


def test_many_codes_and_unseen_workflows_stay_readable(tmp_path: Path) -> None:
    empty = {"runs": 0, "cases": 0, "positives": 0, "breaks_applied": 0, "breaks_killed": 0, "state": "not_seen"}
    many = [
        {"workflow": "airline", "tool": tool, "error_code": f"{tool}:{code}", "bucket": "typical", **empty, "runs": code, "state": "gap" if code else "not_seen"}
        for tool in ("book", "cancel")
        for code in range(6)
    ]  # fmt: skip
    unseen = {"workflow": "aardvark", "tool": "dig", "error_code": "ok", "bucket": "typical", **empty}
    published(tmp_path / "p", coverage=[*many, unseen])
    build(tmp_path / "p", tmp_path / "site")
    text = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "<small>cancel:3</small>" in text
    assert text.index("<caption>airline") < text.index("1 workflow that neither") < text.index("<caption>aardvark")


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Rows]:
    """A site in which one signature has a former name and another one escaped."""
    root, rows = tmp_path_factory.mktemp("renamed"), RUN_TABLES[Signatures]()
    rows[0]["aliases"], rows[5]["state"] = ["refund-unapproved@tool"], "escaped"
    published(root / "p", signatures=rows)
    build(root / "p", root / "site")
    return root / "site", rows


def test_divergence_at_the_end_has_no_place(tmp_path: Path) -> None:
    place = {"divergence": "opportunity_not_reached", "divergence_seq": None, "divergence_boundary": "run"}
    rows = [{**row, **(place if row["outcome"] == "diverged" else {})} for row in RUN_TABLES[Replays]()]
    published(tmp_path / "p", replays=rows)
    build(tmp_path / "p", tmp_path / "site")
    page = Page(case_page(tmp_path / "site", "confirmed-without-reschedule@final"))
    assert "the run never came to the point where the failure can happen" in page.text
    assert "#None" not in page.text


def test_escaped_signature_is_loudest(renamed: tuple[Path, Rows]) -> None:
    site, rows = renamed
    text = (site / "index.html").read_text(encoding="utf-8")
    assert text.index('role="alert"') < text.index('id="coverage"')
    assert listed(site, "index.html")[0] == f"{slug(rows[5]['slug'])}.html"


def test_former_name_leads_to_page(renamed: tuple[Path, Rows]) -> None:
    site, rows = renamed
    moved = case_page(site, "refund-unapproved@tool").read_text(encoding="utf-8")
    assert f"url={slug(rows[0]['slug'])}.html" in moved


def listed(site: Path, name: str) -> list[str]:
    """The pages that a catalog page lists, in order."""
    return re.findall(r'class="c-name"><a href="sig/([^"]+)"', (site / name).read_text(encoding="utf-8"))


def test_long_catalog_is_paginated(data: Path, site: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(site, tmp_path / "site"))
    (out / "left-over.html").touch()
    manifest: Manifest = build(data, out, rows_a_page=5)
    rows = [listed(out, name) for name in ("index.html", "catalog-2.html", "catalog-3.html")]
    assert [len(found) for found in rows] == [5, 5, len(STORIES) + 2 - 10]
    assert len({*chain.from_iterable(rows)}) == len(STORIES) + 2
    assert set(digests(out)) == {*manifest.files, "manifest.json"}, "an earlier site is replaced whole"


@pytest.mark.slow
def test_thousand_rows_stay_under_two_megabytes(tmp_path: Path) -> None:
    (one,) = [row for row in RUN_TABLES[Signatures]() if row["slug"] == "slots-timeout@tool"]
    many = [{**one, "signature": f"sig_{n:012x}", "slug": f"a-signature-with-an-honest-length-{n}@post-tool-hook"} for n in range(1200)]  # fmt: skip
    published(tmp_path / "p", signatures=RUN_TABLES[Signatures]() + many)
    build(tmp_path / "p", tmp_path / "site")
    assert (tmp_path / "site" / "index.html").stat().st_size < 2_000_000
    assert (tmp_path / "site" / "catalog-2.html").exists()


def test_hostile_text_stays_text(data: Path, site: Path, tmp_path: Path) -> None:
    published(tmp_path / "p", **hostile_tables(HOSTILE))
    build(tmp_path / "p", tmp_path / "site")
    honest = {path.relative_to(site): page for path, page in pages(site)}
    texts = []
    for path, page in pages(tmp_path / "site"):
        assert page.tags.count("script") == honest[path.relative_to(tmp_path / "site")].tags.count("script")
        assert "img" not in page.tags
        texts.append(page.text)
    shown = HOSTILE.replace("\u202e", "⟨U+202E⟩")
    assert sum(shown in text for text in texts) > len(STORIES)
    assert not any("\u202e" in text for text in texts)


def test_nothing_judged_is_no_green(tmp_path: Path) -> None:
    published(tmp_path / "p", **{model.named(): [] for model in RUN_TABLES})
    manifest = build(tmp_path / "p", tmp_path / "site")
    text = Page(tmp_path / "site" / "index.html").text
    assert "Nothing was judged" in text
    assert "All clear" not in text
    assert manifest.counts["catalog"] == 0


@pytest.mark.parametrize("name", ["index.html", f"runs/{NIGHTS[-2]}.html"])
def test_conversations_are_shown_as_a_whole(site: Path, name: str) -> None:
    text = " ".join(Page(site / name).text.split())
    assert "turns that each pass do not make a passed conversation" in text
    assert "T-1042refund" in text
    assert "one-refund: more than 1; at the second turn #4" in text
    assert "Conversations" not in Page(site / f"runs/{NIGHTS[0]}.html").text


def test_headline_says_why_where_no_case_is_red(tmp_path: Path) -> None:
    runs = RUN_TABLES[Runs]()
    for run in runs:
        red = run["workflow"] == "refund" and run["night"] == LAST
        run.update({"verdict": "failed", "exit_code": 1} if red else {"verdict": "passed", "exit_code": 0})
        run.update(
            {"failed": 0, "error": 0, "diverged": 0, "reasons": ["1 conversation failed as a whole: T-1042"] * red}
        )
    published(tmp_path / "data", runs=runs)
    build(tmp_path / "data", tmp_path / "site")
    assert "<h1>1 conversation failed as a whole: T-1042</h1>" in (tmp_path / "site/index.html").read_text("utf-8")


def test_night_page_lists_its_cases(site: Path) -> None:
    first, last = Page(site / "runs" / f"{NIGHTS[0]}.html"), Page(site / "runs" / f"{LAST}.html")
    assert "calls-after-done@model" in last.text
    assert "calls-after-done@model" not in first.text


def breakage(own: Path, name: str) -> None:
    run = own / json.loads((own / "LATEST.json").read_text(encoding="utf-8"))["directory"]
    match name:
        case "nothing":
            (own / "LATEST.json").unlink()
        case "pointer":
            (own / "LATEST.json").write_text('{"run_id": "r"', encoding="utf-8")
        case "shape":
            (own / "LATEST.json").write_text('{"run_id": "r"}', encoding="utf-8")
        case "elsewhere":
            latest = json.loads((own / "LATEST.json").read_text(encoding="utf-8"))
            (own / "LATEST.json").write_text(json.dumps({**latest, "directory": "../own/x"}), encoding="utf-8")
        case "directory":
            shutil.rmtree(run)
        case "manifest":
            (run / "manifest.json").unlink()
        case "table":
            (run / "steps.parquet").unlink()
        case _:
            path = run / "steps.parquet"
            path.write_bytes(path.read_bytes() + b"x")


@pytest.mark.parametrize(
    ("broken", "error", "said"),
    [
        ("nothing", HalfPublished, "LATEST.json is missing. Run `twiceshy nightly` first"),
        ("pointer", FormatError, "LATEST.json"),
        ("shape", FormatError, "directory"),
        ("elsewhere", HalfPublished, "has no directory '../own/x'"),
        ("directory", HalfPublished, "which LATEST.json names"),
        ("manifest", HalfPublished, "has no manifest.json"),
        ("table", HalfPublished, "has no steps.parquet"),
        ("changed", HalfPublished, "steps.parquet: changed since it was published"),
    ],
)
def test_broken_publication_leaves_site_alone(
    own: Path, site: Path, tmp_path: Path, broken: str, error: type[InputError], said: str
) -> None:
    out = Path(shutil.copytree(site, tmp_path / "site"))
    before = digests(out)
    breakage(own, broken)
    with pytest.raises(error, match=re.escape(said)) as raised:
        build(own, out)
    assert raised.value.exit_code == 2
    assert "\n" not in str(raised.value)
    assert digests(out) == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_table_never_written_is_missing(tmp_path: Path) -> None:
    published(tmp_path / "p", without=("results",))
    with pytest.raises(HalfPublished, match=r"has no results\.parquet"):
        build(tmp_path / "p", tmp_path / "site")


def test_older_table_names_missing_column(tmp_path: Path) -> None:
    published(tmp_path / "p", dropped={"replays": "isolation"})
    with pytest.raises(HalfPublished, match=r"replays\.parquet: no column isolation"):
        build(tmp_path / "p", tmp_path / "site")


def test_optional_tables_may_be_missing(tmp_path: Path) -> None:
    published(tmp_path / "p", without=("quality", "admissions", "intents", "attributions", "champion_diff"))
    build(tmp_path / "p", tmp_path / "site")
    assert "No admission was published" in Page(tmp_path / "site" / "index.html").text


@pytest.mark.parametrize("kept", ["notes.txt", "manifest.json"])
def test_foreign_directory_is_left_alone(data: Path, tmp_path: Path, kept: str) -> None:
    (tmp_path / kept).write_text("mine", encoding="utf-8")
    with pytest.raises(NoSite, match="not a site that twiceshy built"):
        build(data, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [kept]


def test_two_names_have_two_pages() -> None:
    assert slug("a-b@c") != slug("a@b-c")
    assert re.fullmatch(r"[a-z0-9-]+", slug("../../Étude & <b>"))
