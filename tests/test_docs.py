"""The pages say what is: the worked example, the drawing of the house, links, code, and README's tour.

README's fences
    ``python``   runs as it stands, in an empty folder; the blocks of one file share their names. In docs/ as well.
    ``console``  a line that begins with "$ " is a command, "> " goes on with it, and the lines up to the next command
                 are what it prints (standard output and errors together). All commands of the file run in one shell,
                 in order, in an empty folder with an empty home. ``gj`` is the one beside this Python. A line that
                 is ``...`` stands for any lines, and ``...`` in a line for any text.
    others       (``sh``, ``text``, ``json``) are not run, nor is ``console`` in docs/.

Placeholders: what differs from run to run is replaced on both sides before they are compared, so the page may show
real values or the placeholder itself.
    <id>    7 to 64 hex digits that stand alone: hashes, object ids (and whole numbers of that length)
    <time>  dates, times of day, "2026-01-02T03:04:05.678Z", and amounts of time: "0.12 s", "3 ms", "2 minutes ago"
    <path>  absolute paths of two parts or more
Runs of spaces count as one, since placeholders move columns.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from hashlib import sha1, sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support import ROOT, fsck, git, git_text

import gitjournal
from gitjournal import formats, refs, rules, tail, tiers, writer
from gitjournal.event import Event
from gitjournal.journal import Journal
from gitjournal.objects import Deriver, side_file
from gitjournal.refs import Name
from gitjournal.tail import Tail
from gitjournal.verify import MAX_FINDINGS

PACKAGE = ROOT / "gitjournal"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FORMAT = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
HOUSE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "docs" / "example" / "demo.jsonl"


# --- markdown ------------------------------------------------------------------------------------


class Block(NamedTuple):
    info: str
    text: str


_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[Block]:
    return [Block(match[1].strip(), match[2]) for match in _FENCE.finditer(page)]


def labelled(page: str) -> dict[str, str]:
    """Text of each block with a label, ``text event-1``, by label."""
    return {one.info.split()[1]: one.text for one in blocks(page) if " " in one.info}


def prose(page: str) -> str:
    return re.sub(r"`[^`\n]*`", "``", _FENCE.sub("", page))


def anchors(page: str) -> set[str]:
    """What GitHub makes of the headings."""
    found: list[str] = []
    for heading in re.findall(r"^#+ +(.+?) *$", _FENCE.sub("", page), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
    return set(found)


def rows(page: str, *columns: str) -> dict[str, list[str]]:
    """The table with these columns: its rows' other cells by the first one."""
    out: dict[str, list[str]] = {}
    head = "| " + " | ".join(columns) + " |\n"
    assert head in page, f"no table {columns}"
    for line in page.split(head, 1)[1].splitlines()[1:]:
        if not line.startswith("|"):
            break
        first, *rest = [cell.strip() for cell in line.strip("|").split(" | ")]
        out[first] = rest
    return out


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# --- format.md: the worked example ---------------------------------------------------------------

TEXT = labelled(FORMAT)
NUMBERS = (1, 2, 3)
NOTE = b"oats\nmilk\n"


def raw(number: int) -> bytes:
    return TEXT[f"event-{number}"].rstrip("\n").encode()


def value(number: int, row: str) -> str:
    return rows(FORMAT, "value", f"event {number}")[row][0].strip("`")


def jcs(members: Any) -> bytes:
    """RFC 8785 of values without fractions and with ASCII names only, as those of the example are."""
    return json.dumps(members, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def plain_id(kind: str, content: bytes) -> str:
    return sha1(f"{kind} {len(content)}\0".encode() + content).hexdigest()


def git_id(repo: Path, kind: str, content: bytes) -> str:
    """The id by stock git, and by hashlib."""
    found = git_text("hash-object", "-w", "-t", kind, "--stdin", cwd=repo, stdin=content)
    assert found == plain_id(kind, content)
    return found


def naive_tree(repo: Path, listing: str) -> str:
    return git_text("mktree", "--missing", cwd=repo, stdin=listing.encode())


@pytest.mark.parametrize("number", NUMBERS)
def test_example_header_and_hash_by_hand(number: int) -> None:
    members = json.loads(raw(number))
    assert jcs(members) == raw(number)
    body = {name: members.pop(name) for name in ("data", "files", "salt") if name in members}
    members["data_sha256"] = sha256(jcs(body)).hexdigest()
    assert members["data_sha256"] == value(number, "`data_sha256`")
    assert jcs(members).decode() + "\n" == TEXT[f"header-{number}"]
    assert sha256(jcs(members)).hexdigest() == value(number, "event hash")
    assert members["prev"] == (value(number - 1, "event hash") if number > 1 else None)


def test_example_objects_by_hand_and_by_git(repo: Path) -> None:
    note = git_id(repo, "blob", NOTE)
    assert json.loads(raw(3))["files"][0]["sha256"] == sha256(NOTE).hexdigest()
    listing, parent, known = "", "", {note}
    for number in NUMBERS:
        if number == 3:
            listing += f"100644 blob {note}\t00000003.1\n"
        blob = git_id(repo, "blob", raw(number))
        listing += f"100644 blob {blob}\t{number:08d}.json\n"
        leaf = naive_tree(repo, listing)
        middle = naive_tree(repo, f"040000 tree {leaf}\t00\n")
        root = naive_tree(repo, f"040000 tree {middle}\t0000\n")
        commit = TEXT[f"commit-{number}"]
        found = [blob, leaf, middle, root, git_id(repo, "commit", commit.encode())]
        page = rows(FORMAT, "value", f"event {number}")
        assert [f"`{one}`" for one in found] == [cell for cells in list(page.values())[2:] for cell in cells]
        assert commit.startswith(f"tree {root}\n" + (f"parent {parent}\n" if parent else "") + "author ")
        assert commit.endswith(f"\n\nSession: demo\nEvent-Hash: sha256:{value(number, 'event hash')}\n")
        parent = found[-1]
        known.update(found)
    assert set(re.findall(r"\b[0-9a-f]{40}\b", FORMAT)) == known
    assert f"`{note}`" in FORMAT and f"\n`{parent}`, and the tail is cleared" in FORMAT
    assert listing == TEXT["tree-leaf"]
    assert (naive_tree(repo, TEXT["tree-middle"]), naive_tree(repo, TEXT["tree-root"])) == (middle, root)


def test_example_by_the_library(journal: Journal) -> None:
    deriver = Deriver()
    items = []
    for number in NUMBERS:
        event = Event.parse(raw(number))
        files = [side_file(NOTE, "text/plain; charset=utf-8", "list.txt")] if number == 3 else []
        derived = deriver.push(event, [file.oid for file in files])
        assert event.header.decode() + "\n" == TEXT[f"header-{number}"]
        ids = [event.hash, "", derived.blob[0], *(tree[0] for tree in derived.trees), derived.commit[0]]
        page = [cells[0].strip("`") for cells in rows(FORMAT, "value", f"event {number}").values()]
        assert [one.hex() if isinstance(one, bytes) else one for one in ids[2:]] == page[2:] and event.hash == page[0]
        assert derived.commit[1].decode() == TEXT[f"commit-{number}"]
        items.append((event, files))
    journal.graft(Name("demo"), items)
    check_demo(journal)


def check_demo(journal: Journal) -> None:
    """The journal has the example, and git agrees."""
    assert git_text("rev-parse", "refs/heads/demo/main", cwd=journal.path) == value(3, "commit")
    for number, back in ((1, 2), (2, 1), (3, 0)):
        commit = git("cat-file", "commit", f"demo/main~{back}", cwd=journal.path).stdout
        assert commit.decode() == TEXT[f"commit-{number}"]
    for label, path in (("tree-leaf", "0000/00"), ("tree-middle", "0000"), ("tree-root", "")):
        assert git("ls-tree", f"demo/main:{path}", cwd=journal.path).stdout.decode() == TEXT[label]
    assert journal.event("demo", 3).data["parts"] == [{"type": "text", "content": NOTE.decode()}]
    report = gitjournal.verify(journal, "demo")
    assert report.ok and report.exit_status == 0
    fsck(journal.path)


def test_example_file_imports_to_the_same_ids(journal: Journal, tmp_path: Path) -> None:
    assert EXAMPLE.read_bytes() == b"".join(raw(number) + b"\n" for number in NUMBERS)
    formats.import_file(journal, EXAMPLE)
    check_demo(journal)
    with (tmp_path / "demo.jsonl").open("wb") as out:
        formats.export(journal, "demo", "jsonl", out)
    assert (tmp_path / "demo.jsonl").read_bytes() == EXAMPLE.read_bytes()
    assert (tmp_path / "demo.jsonl.files" / "3.1").read_bytes() == NOTE


@pytest.mark.parametrize(("label", "writes"), [("tail-1-2", [[1], [2]]), ("tail-batch", [[1, 2]])])
def test_example_tail(tmp_path: Path, label: str, writes: list[list[int]]) -> None:
    file = Tail(tmp_path / "demo" / "main.jsonl")
    for numbers in writes:
        file.append([raw(number) for number in numbers])
    content = file.path.read_bytes()
    assert content.rstrip(b"\n").decode() + "\n" == TEXT[label] and len(content) == 64 * 1024
    assert [event.raw for event in tail.scan(content, "demo", 0, None).events] == [raw(1), raw(2)]
    cut = tail.scan(content.replace(b"my list", b"mY list").replace(b'"v":1}\n\n', b'"v":1\n\n'), "demo", 0, None)
    assert [event.raw for event in cut.events] == [raw(1)] and cut.torn_at == len(raw(1)) + 1 and not cut.damage
    file.close()


# --- format.md and architecture.md against the code ----------------------------------------------


def sources() -> dict[str, str]:
    """Text of each module by its path in the package."""
    return {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}


def test_every_section_that_a_comment_names_is_there() -> None:
    sections = set(re.findall(r"^## (\d+)\. ", FORMAT, re.MULTILINE))
    assert sections == {str(n) for n in range(1, 15)}
    for name, text in sources().items():
        for run in re.findall(r"format\.md,?\s+sections? ((?:\d+(?:, | and | to )?)+)", text):
            assert set(re.findall(r"\d+", run)) <= sections, name


_CODE = re.compile(r"(?:bad|not|broken|missing|wrong|unknown)-[a-z]+|equivocation|rollback|truncated")


def strings(text: str) -> set[str]:
    return {
        node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant) and type(node.value) is str
    }


def test_the_table_of_codes_has_all_that_are_given_and_no_others() -> None:
    table = rows(FORMAT, "code", "meaning")
    documented = {code.strip("`") for code in table}
    given = set()
    for name, text in sources().items():
        if not name.startswith(("cli", "errors")):
            given |= {one for one in strings(text) if _CODE.fullmatch(one)}
    assert given == documented


def test_numbers_on_the_pages_are_those_of_the_code() -> None:
    tail_limit = f"{writer.FLUSH_EVENTS} events or {writer.FLUSH_BYTES >> 20} MiB"
    for page in (FORMAT, HOUSE):
        assert tail_limit in page
        assert f"{rules.MAX_SEQ:,}" in page and f"{rules.MAX_EVENT_BYTES >> 20} MiB" in page
    assert f"at most {refs.MAX_ENCODED} bytes" in FORMAT and f"1 to {refs.MAX_ID_BYTES} bytes" in FORMAT
    assert f"strings of {rules.SIDE_FILE_BYTES >> 10} KiB or more" in FORMAT
    limits = rows(HOUSE, "limit", "value", "from")
    assert limits["one side file"][0].startswith(f"{rules.MAX_FILE_BYTES >> 30} GiB")
    assert limits["packs that are joined"][0].startswith(f"up to {tiers.LIMIT >> 20} MiB") and tiers.FAN_IN == 8
    assert limits["findings of one report"][0] == f"{MAX_FINDINGS:,}"


def floors() -> dict[str, tuple[int, int]]:
    """(floor, place from the left) of each room in the drawing."""
    out: dict[str, tuple[int, int]] = {}
    for line in labelled(HOUSE)["floors"].splitlines():
        number, *there = line.removeprefix("floor").split()
        out.update({one: (int(number), place) for place, one in enumerate(there)})
    return out


def room(module: str) -> str:
    """The room of a module of the package: its file, or its folder."""
    return f"{module.split('/')[0]}/" if "/" in module else module


def test_every_module_is_in_the_house_and_every_room_exists() -> None:
    modules = {name for name in sources() if not name.endswith(("__init__.py", "__main__.py"))}
    assert set(floors()) == {room(name) for name in modules}
    mentioned = set(re.findall(r"`([\w/]+\.py)`", HOUSE))
    assert {name for name in mentioned if not name.startswith("tests/")} == modules
    assert all((ROOT / name).is_file() for name in mentioned if name.startswith("tests/"))


def imports(tree: ast.AST) -> Iterator[str]:
    """Dotted names of ours that code imports when it runs, in functions too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "gitjournal":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gitjournal."):
            yield (node.module or "").split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("gitjournal."))
        else:
            yield from imports(node)


def test_a_module_imports_only_from_below_and_from_the_left() -> None:
    place = floors()
    for name, text in sources().items():
        if (here := room(name)) not in place:
            continue
        for target in imports(ast.parse(text)):
            there = f"{target}.py" if f"{target}.py" in place else f"{target}/"
            if target != "__version__" and there != here:
                assert there in place, f"{name} imports {target}"
                assert place[there] < place[here], f"{name} imports {target}"


def test_only_the_store_knows_pygit2_and_verification_takes_what_it_is_given() -> None:
    users = {name for name, text in sources().items() if re.search(r"^\s*(?:import|from) pygit2", text, re.MULTILINE)}
    assert users == {"store.py"}
    assert set(imports(ast.parse(sources()["verify.py"]))) == {
        "aside",
        "checks",
        "errors",
        "event",
        "objects",
        "tail",
        "verdict",
        "walk",
    }
    assert set(imports(ast.parse(sources()["walk.py"]))) == {"errors", "objects"}
    assert set(imports(ast.parse(sources()["checks.py"]))) == {"line", "seal", "trust"}


# --- links ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT) and target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), link


# --- code on the pages ---------------------------------------------------------------------------


def clean_environment(home: Path) -> Mapping[str, str]:
    """An empty home, no journal, the programs beside this Python first."""
    home.mkdir()
    kept = {name: text for name, text in os.environ.items() if name in ("LD_LIBRARY_PATH", "TMPDIR", "VIRTUAL_ENV")}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    fixed = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "NO_COLOR": "1", "COLUMNS": "100", "PAGER": "cat", "TERM": "dumb"}
    return {**kept, **fixed, "PATH": path, "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}


PYTHON_PAGES = [page for page in PAGES if any(b.info == "python" for b in blocks(page.read_text(encoding="utf-8")))]


@pytest.mark.parametrize("page", PYTHON_PAGES, ids=named)
def test_python_on_the_pages_runs(page: Path, tmp_path: Path) -> None:
    code = "\n".join(one.text for one in blocks(page.read_text(encoding="utf-8")) if one.info == "python")
    (tmp_path / "work").mkdir()
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "work",
        env=clean_environment(tmp_path / "home"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


_PLACEHOLDERS = [
    (r"(?<![\w./<])/[\w.+-]+/[\w./+-]*\w", "<path>"),
    (r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)?", "<time>"),
    (r"\b\d\d:\d\d(?::\d\d(?:\.\d+)?)?\b", "<time>"),
    (r"\b\d+(?:\.\d+)? ?(?:us|µs|ms|s|seconds?|minutes?|hours?)\b(?: ago)?", "<time>"),
    (r"(?<![\w<])[0-9a-f]{7,64}(?!\w)", "<id>"),
    (r"[ \t]+", " "),
]


def neutral(text: str) -> list[str]:
    """Lines with placeholders in the place of what differs from run to run."""
    for pattern, placeholder in _PLACEHOLDERS:
        text = re.sub(pattern, placeholder, text)
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def is_shown(expected: str, printed: str) -> bool:
    """Whether a page's lines are what was printed, ``...`` and placeholders apart."""
    pattern = ""
    for line in neutral(expected):
        pattern += "(?:.*\n)*?" if line.strip() == "..." else ".*".join(map(re.escape, line.split("..."))) + "\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in neutral(printed))) is not None


def commands(page: str) -> list[tuple[str, str]]:
    """(command, what the page says that it prints) of all console blocks."""
    out: list[tuple[str, str]] = []
    for block in blocks(page):
        lines = block.text.splitlines() if block.info == "console" else []
        for number, line in enumerate(lines):
            if line.startswith("$ "):
                out.append((line[2:], ""))
            else:
                assert number, f"a console block begins with output: {line}"
                command, shown = out[-1]
                out[-1] = (f"{command}\n{line[2:]}", shown) if line.startswith("> ") else (command, f"{shown}{line}\n")
    return out


def run_all(lines: list[str], folder: Path, env: Mapping[str, str]) -> list[str]:
    """What each command prints, all in one shell."""
    script = "exec 2>&1\n" + "".join(f"{line}\nstatus=$?; printf '\\036'; (exit $status)\n" for line in lines)
    run = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return run.stdout.decode(errors="replace").split("\x1e")[:-1]


def test_the_tour_of_the_readme(tmp_path: Path) -> None:
    assert Path(sys.executable).with_name("gj").is_file(), "gj is not installed beside this Python"
    tour = commands((ROOT / "README.md").read_text(encoding="utf-8"))
    assert any(line.startswith("gj ") for line, _ in tour), "the README has no tour"
    (tmp_path / "tour").mkdir()
    printed = run_all([line for line, _ in tour], tmp_path / "tour", clean_environment(tmp_path / "home"))
    for (line, shown), text in zip(tour, printed, strict=True):
        assert "Traceback" not in text
        assert is_shown(shown, text), f"$ {line}\n{text}\n--- the page says\n{shown}"


def test_how_a_tour_is_compared(tmp_path: Path) -> None:
    page = (
        "```console\n$ cd /\n$ echo a; false\na\n$ echo $?\n1\n$ printf 'x\\n' |\n> cat\nx\n```\n```sh\nexit 1\n```\n"
    )
    assert commands(page) == [
        ("cd /", ""),
        ("echo a; false", "a\n"),
        ("echo $?", "1\n"),
        ("printf 'x\\n' |\ncat", "x\n"),
    ]
    printed = run_all([line for line, _ in commands(page)], tmp_path, clean_environment(tmp_path / "home"))
    assert printed == ["", "a\n", "1\n", "x\n"]
    assert is_shown("", "") and not is_shown("", "more\n") and not is_shown("more\n", "")
    assert is_shown("a\n...\nz\n", "a\nz\n") and is_shown("a\n...\nz", "a\nb\nc\nz\n")
    assert not is_shown("...\na", "a\nb\n")
    assert is_shown("wrote ... to <path>", "wrote 3 events   to /tmp/x/y.jsonl\n")
    assert is_shown("@2 ab12cd34e 2026-01-02T03:04:05.678Z in 1.5 s", "@2 <id> <time> in 20 ms\n")
    assert not is_shown("@2 ok", "@3 ok\n")


def test_the_table_of_formats_has_all_of_them() -> None:
    folder = ROOT / "docs" / "formats"
    rows = re.findall(r"^\| \[`([\w-]+)`\]\((\S+)\)", (folder / "README.md").read_text(), re.M)
    assert {name for name, _ in rows} == {*formats.formats(), "openai-chat"}
    assert {page for _, page in rows} == {page.name for page in folder.glob("*.md")} - {"README.md"}
