"""Breaks of real code: what the candidate is started from instead, and that the user's own tree is only read."""

import os
from pathlib import Path

import pytest

from repositories import git
from twiceshy import breaking
from twiceshy.breaking import CodeBreak
from twiceshy.breaking.copies import NotApplicable, changed

DIFF = """--- a/agent.py
+++ b/agent.py
@@ -1,2 +1,2 @@
-LIMIT = 500
+LIMIT = 900
 # end
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A repository with two commits (limit 100, then 500), an ignored folder, and a file that is not committed."""
    root = tmp_path / "code"
    (root / "sub").mkdir(parents=True)
    git(root.parent, "init", "-q", str(root))
    (root / "agent.py").write_text("LIMIT = 100\n# end\n")
    (root / ".gitignore").write_text("built/\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    (root / "agent.py").write_text("LIMIT = 500\n# end\n")
    git(root, "commit", "-qam", "second")
    (root / "built").mkdir()
    (root / "built" / "big").write_text("x")
    (root / "sub" / "new.py").write_text("NEW = 1\n")
    (tmp_path / "case").mkdir()
    (tmp_path / "case" / "limit.diff").write_text(DIFF)
    return root


def state(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }


def of(code: Path, **written: str) -> dict[str, bytes]:
    """The files of a candidate that stands in this folder, broken; the folder itself stays as it is, and the copy goes."""
    found = breaking.parse(CodeBreak(**written))  # type: ignore[arg-type] # one of three strings
    before = state(code)
    with changed(found, path=[code], env=os.environ, case=code.parent / "case") as now:
        assert now.path[0] != code
        files = state(now.path[0])
    assert state(code) == before
    assert not now.path[0].exists()
    return files


def test_a_patch_is_applied_to_a_copy(code: Path) -> None:
    files = of(code, patch="limit.diff")
    assert files["agent.py"] == b"LIMIT = 900\n# end\n"
    assert sorted(files) == [".gitignore", "agent.py", "sub/new.py"]


def test_a_patch_is_applied_to_a_plain_folder(code: Path) -> None:
    plain = code.parent / "plain"
    plain.mkdir()
    (plain / "agent.py").write_bytes((code / "agent.py").read_bytes())
    assert of(plain, patch="limit.diff") == {"agent.py": b"LIMIT = 900\n# end\n"}


def test_a_patch_that_does_not_fit_applies_nowhere(code: Path) -> None:
    (code / "agent.py").write_text("LIMIT = 7\n# end\n")
    with pytest.raises(NotApplicable, match=r"patch:limit\.diff applied nowhere"):
        of(code, patch="limit.diff")


def test_another_revision_is_exported(code: Path) -> None:
    files = of(code, git="HEAD~1")
    assert files["agent.py"] == b"LIMIT = 100\n# end\n"
    assert sorted(files) == [".gitignore", "agent.py"]


def test_a_folder_inside_a_repository_keeps_its_place(code: Path) -> None:
    git(code, "mv", "agent.py", "sub/agent.py")
    git(code, "add", ".")
    git(code, "commit", "-qm", "third")
    (code / "sub" / "agent.py").write_text("LIMIT = 900\n")
    assert of(code / "sub", git="HEAD")["agent.py"] == b"LIMIT = 500\n# end\n"


@pytest.mark.parametrize("ref", ["nowhere", "HEAD"])
def test_a_revision_that_is_none_or_the_same_applies_nowhere(code: Path, ref: str) -> None:
    with pytest.raises(NotApplicable):
        of(code, git=ref)


def test_a_revision_outside_a_repository_applies_nowhere(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("")
    with pytest.raises(NotApplicable, match="in a repository"):
        of(tmp_path, git="HEAD")


def test_variables_are_set_beside_the_path(tmp_path: Path) -> None:
    found = breaking.parse(CodeBreak(env={"LIMIT": "900"}))
    with changed(found, path=[tmp_path], env={"LIMIT": "900"}, case=tmp_path) as now:
        assert now == ([tmp_path], {"LIMIT": "900"})


def test_a_variable_that_says_so_already_applies_nowhere(tmp_path: Path) -> None:
    found = breaking.parse(CodeBreak(env={"TZ": "UTC"}))
    with pytest.raises(NotApplicable), changed(found, path=[tmp_path], env={}, case=tmp_path):
        pass
