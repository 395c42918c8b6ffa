"""Rules of the house that a reader would otherwise have to trust: who may import what, and that all is described.

The floors themselves are drawn in docs/architecture.md, and test_docs.py holds the imports against the drawing.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import ROOT

PACKAGE = ROOT / "gitjournal"
FILES = sorted(PACKAGE.rglob("*.py"))
#: Whoever makes bytes that are hashed, or stands below those who do.
NO_JSON = {
    "errors",
    "rules",
    "event",
    "objects",
    "payload",
    "refs",
    "pack",
    "packread",
    "loose",
    "tiers",
    "tail",
    "store",
    "seqindex",
}
NO_JSON |= {"chain", "writer", "lineage", "verify"}
#: Who may import modules of the package that no import statement names; None is a name that is put together.
BY_NAME = {
    # What the package and the registry of formats offer is loaded when somebody asks for it.
    "__init__": {None, "gitjournal.verify"},
    "formats.__init__": {None},
    # A format brings its import and export along; these know what a format is, and nobody else is above them.
    "formats.protocol": {"gitjournal.formats.importer", "gitjournal.formats.exporter"},
}
LONGEST_FUNCTION = 80

Function = ast.FunctionDef | ast.AsyncFunctionDef


def module(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.AST) -> Iterator[str]:
    """Dotted names of all modules that code imports when it runs, wherever it does."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            yield from imports(node)


def named_imports(tree: ast.AST) -> Iterator[str | None]:
    """What code imports by calls: names of modules, None for one that is not written there as a whole."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            name = node.args[0] if node.args else None
            yield str(name.value) if isinstance(name, ast.Constant) else None


def users(of: str) -> set[str]:
    return {module(path) for path in FILES if any(name.split(".")[0] == of for name in imports(parsed(path)))}


def test_there_is_a_house() -> None:
    assert {"errors", "canonical", "event", "objects", "tail", "pack", "store", "chain", "journal", "verify"} <= set(
        map(module, FILES)
    )


def test_the_fast_json_library_is_behind_one_door() -> None:
    assert users("orjson") == {"canonical"} and users("rfc8785") == {"canonical"}


def test_git_is_behind_one_door() -> None:
    assert "store" in users("pygit2") and not users("pygit2") & (NO_JSON - {"store"}) and users("dulwich") == set()


def test_only_the_command_line_knows_click() -> None:
    assert all(name.startswith("cli") for name in users("click"))


def test_who_makes_hashed_bytes_has_no_second_printer() -> None:
    assert users("json") & NO_JSON == set()


def test_no_module_imports_one_that_imports_it() -> None:
    ours = {
        module(path): {
            name.removeprefix("gitjournal.") for name in imports(parsed(path)) if name.startswith("gitjournal.")
        }
        for path in FILES
    }
    graph = {name: {other for other in ours[name] if other in ours and other != name} for name in ours}
    done: set[str] = set()
    while len(done) < len(graph):
        free = {name for name in graph if name not in done and graph[name] <= done}
        assert free, f"a circle among {sorted(set(graph) - done)}"
        done |= free


def test_no_module_imports_one_of_ours_by_its_name_as_a_text() -> None:
    found = {
        module(path): wanted
        for path in FILES
        if (wanted := {name for name in named_imports(parsed(path)) if name is None or name.startswith("gitjournal")})
    }
    assert found == BY_NAME


@pytest.mark.parametrize("name", ["verify", "event", "objects", "canonical", "refs", "tail", "packread"])
def test_what_must_stand_alone_loads_neither_libgit2_nor_click(name: str) -> None:
    script = (
        f"import sys, gitjournal.{name}; sys.exit(', '.join({{'pygit2', 'click', 'dulwich'}} & set(sys.modules)) or 0)"
    )
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ["pygit2", "click", "rfc8785", "cryptography", "platformdirs", "difflib", "multiprocessing", "asyncio"]
    script = f"import sys, gitjournal; sys.exit(', '.join(set({heavy}) & set(sys.modules)) or 0)"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)


def public(tree: ast.Module) -> Iterator[ast.ClassDef | Function]:
    """Public functions and classes, and the public methods of public classes."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from (each for each in node.body if isinstance(each, Function) and not each.name.startswith("_"))


@pytest.mark.parametrize("path", FILES, ids=module)
def test_all_that_is_public_is_described(path: Path) -> None:
    tree = parsed(path)
    assert ast.get_docstring(tree), "the module has no docstring"
    missing = [node.name for node in public(tree) if not ast.get_docstring(node)]
    assert not missing


@pytest.mark.parametrize("path", FILES, ids=module)
def test_no_function_is_longer_than_a_page(path: Path) -> None:
    functions = [node for node in ast.walk(parsed(path)) if isinstance(node, Function)]
    long = [node.name for node in functions if (node.end_lineno or 0) - node.lineno >= LONGEST_FUNCTION]
    assert not long


@pytest.mark.parametrize("path", FILES, ids=module)
def test_no_check_disappears_with_optimisation_and_no_error_is_swallowed_whole(path: Path) -> None:
    tree = parsed(path)
    assert not [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)], "assert in the package"
    bare = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.type is None]
    assert not bare


@pytest.mark.parametrize("files", ["verify_chain.py", "go/*.go", "rust/src/*.rs", "js/*.mjs", "java/VerifyChain.java"])
def test_a_verifier_can_be_read_in_one_sitting(files: str) -> None:
    found = [path for path in (ROOT / "verifiers").glob(files) if path.name != "tests.rs"]
    lines = sum(len(path.read_text().splitlines()) for path in found if not path.stem.endswith("_test"))
    assert 1000 < lines <= 2800
