"""The inputs of `fuzz.py`, made from the vectors: the n-th one depends on the seed and n alone.

Bytes are changed anywhere; JSON texts also by their structure, and then linked, sealed and signed anew in part, so that
what lies behind the first rule is reached as well.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from changes import (
    armours,
    exact,
    following,
    parsed,
    some_armour,
    some_bytes,
    some_entry,
    some_json,
    some_member,
    some_pack,
)
from mutate import loose, path_of
from vectors.make.cases_seals import ALICE, signed
from vectors.make.disk import read_repo
from vectors.make.gitkit import Lies, Repo
from vectors.make.kit import Event, canon, root

VECTORS = Path(__file__).resolve().with_name("vectors")
#: Events in a file of events that have nothing to do with each other: far below 1,000 findings.
MANY = 120
_ALICE = f"alice {ALICE.line}\n".encode()
_SIGNER_PIECES = (
    *(" ", "\t", ",", '"', "=", "!", "*", "?", "#", "\r", "\n", "Z", "\u00e9", "\u00a0", "\x0b", "gitjournal"),
    *("cert-authority", "NAMESPACES=", "valid-before="),
)
_SIGNER_OPTIONS = (
    *('namespaces="git"', 'namespaces="gitjournal"', 'namespaces="*"', 'NameSpaces="g*l,x"', 'namespaces="*,!git"'),
    *('namespaces="!x"', 'namespaces=""', 'namespaces="git?ourn*"', 'namespaces=",gitjournal"', 'namespaces="gitj, x"'),
    *('valid-after="20260101"', 'valid-after="202601020304"', 'valid-after="20260102030405"', 'valid-after="20260103"'),
    *(
        'valid-before="20260101"',
        'valid-before="20260103Z"',
        'valid-before="202601020304"',
        'VALID-BEFORE="20360101000000Z"',
    ),
    *(
        'valid-before="20260229"',
        'valid-after="19700101"',
        'valid-after="19691231"',
        "cert-authority",
        'x="a b,c"',
        "x",
    ),
)


@dataclass(frozen=True)
class Input:
    """Files by their path below a folder, and what a verifier gets; ``{}`` is the folder.

    ``damaged``: an object, or a pack, is not what its name or sums say.
    """

    kind: str
    files: dict[str, bytes]
    arguments: tuple[str, ...]
    damaged: bool = False


class Seeds:
    """The vectors that can be changed: those that are files, or repositories of loose objects."""

    def __init__(self, vectors: Path) -> None:
        self._vectors = vectors
        cases = json.loads((vectors / "index.json").read_bytes())["cases"]
        self._cases = [one for one in cases if not one.keys() & {"generate", "env", "rss", "setup", "differ"}]
        self.exports = self._ending(".jsonl")
        self.proofs = [one for one in self._ending(".json") if not one["input"].endswith(".repo.json")]
        self.repos = self._ending(".repo.json")
        self.signed = [one for one in (*self.exports, *self.proofs) if "--allowed-signers" in one["args"]]
        texts = ((vectors / one["input"]).read_bytes().splitlines() for one in self.exports)
        self.events = sorted({line for text in texts for line in text if len(line) < 3000})
        self.chains = [
            one for one in self.exports if one["exit"] == 0 and not (vectors / f"{one['input']}.files").exists()
        ]

    def _ending(self, ending: str) -> list[dict[str, Any]]:
        named = [one for one in self._cases if one["input"].endswith(ending) and one["exit"] in (0, 1, 3)]
        return [one for one in named if (self._vectors / one["input"]).is_file()]

    def input(self, case: dict[str, Any]) -> Input:
        """A case that is a file, with what lies beside it and the files that its options name."""
        source = self._vectors / case["input"]
        name = f"input{source.suffix or source.name}"
        files = {name: source.read_bytes()}
        files |= {
            f"{name}.files/{one.name}": one.read_bytes() for one in Path(f"{source}.files").glob("*") if one.is_file()
        }
        arguments = []
        for one in case["args"]:
            if one.startswith("{vectors}/"):
                other = self._vectors / one.removeprefix("{vectors}/")
                files |= {other.name: other.read_bytes()} if other.is_file() else {}
                one = f"{{}}/{other.name}"
            arguments.append(one.replace("{input}", f"{{}}/{name}"))
        return Input("export" if name == "input.jsonl" else "proof", files, tuple(arguments))

    def repository(self, case: dict[str, Any]) -> Repo:
        """The repository of a case: its objects and refs, whatever else lies in it."""
        text = read_repo(self._vectors / case["input"], self._vectors)
        repo = Repo()
        for (_, name), (header, data) in text["objects"].items():
            repo.put(header.partition(" ")[0], data, name)
        repo.refs = text["refs"]
        return repo


def events(random: Random, seeds: Seeds) -> Input:
    """Many events that have nothing to do with each other."""
    text = b"\n".join(some_json(random, random.choice(seeds.events)).replace(b"\n", b"") for _ in range(MANY))
    return Input("events", {"input.jsonl": text + b"\n"}, ("{}/input.jsonl",))


def export(random: Random, seeds: Seeds) -> Input:
    """An export with its lines, or bytes, changed; or a side file."""
    made = seeds.input(random.choice(seeds.exports))
    name = random.choice(sorted(made.files)) if random.random() < 0.2 else "input.jsonl"
    lines = made.files[name].split(b"\n")
    at, what = random.randrange(len(lines)), random.randrange(5)
    if what == 0:
        lines.insert(random.randrange(len(lines)), lines.pop(at))
    elif what == 1:
        lines.insert(random.randrange(len(lines)), lines[at])
    elif what == 2:
        lines[at] = some_json(random, lines[at])
    else:
        lines = some_bytes(random, b"\n".join(lines)).split(b"\n")
    return replace(made, files=made.files | {name: b"\n".join(lines)})


def chain(random: Random, seeds: Seeds) -> Input:
    """A good line with the structure of an event changed, and what follows numbered, linked and sealed anew."""
    made = seeds.input(random.choice(seeds.chains))
    text = b"".join(one.raw + b"\n" for one in _relinked(random, made.files["input.jsonl"]))
    return replace(made, kind="chain", files=made.files | {"input.jsonl": text})


def rewritten(random: Random, seeds: Seeds) -> Input:
    """Such a line as a repository, in which some commits are signed; perhaps with its beginning as another branch."""
    line = _relinked(random, seeds.input(random.choice(seeds.chains)).files["input.jsonl"])
    signs = {seq: _signer(random) for seq in random.sample(range(1, len(line) + 1), min(2, len(line)))}
    repo = Repo()
    try:
        repo.write(line, "refs/heads/s/main", Lies(sign=signs))
        if random.random() < 0.3:
            repo.write(line[: random.randrange(len(line))], "refs/heads/s/try")
    except (LookupError, ValueError, TypeError, AttributeError):
        return chain(random, seeds)  # an event that no commit can be made of
    files = {path_of(name): loose(kind, data) for name, (kind, data) in repo.objects.items()}
    files |= _refs_and_config(repo)
    made = {f"r.git/{name}": content for name, content in files.items()} | {"alice.signers": _ALICE}
    arguments = random.choice(((), ("--allowed-signers", "{}/alice.signers"), ("--require-signed",)))
    return Input("rewritten", made, (*arguments, "{}/r.git"))


def _signer(random: Random) -> Callable[[bytes], str]:
    namespace = random.choice(("git", "git", "git", "gitjournal"))
    changed = random.random() < 0.2
    return lambda text: some_armour(random, ALICE.sign(text, namespace)) if changed else ALICE.sign(text, namespace)


def _relinked(random: Random, raw: bytes) -> list[Event]:
    values = [json.loads(line) for line in raw.splitlines()]
    target, sealed = random.randrange(len(values)), random.random() < 0.8
    out: list[Event] = []
    for at, value in enumerate(values):
        if at:
            value["prev"] = out[-1].hash
        if sealed and value["type"] == "session.seal":
            _seal(random, value, out)
        places = armours(value)
        if at == target and places and random.random() < 0.5:
            holder, key = random.choice(places)
            holder[key] = some_armour(random, holder[key])
        elif at == target:
            some_member(random, value)
        out.append(Event.of(exact(value)))
    return out


def _seal(random: Random, value: dict[str, Any], before: list[Event]) -> None:
    """Make a seal right again, and sign it; one that is not in form stays as it is."""
    data = value.get("data")
    if type(data) is not dict or type(data.get("checkpoint")) is not str:
        return
    top = root([bytes.fromhex(one.hash) for one in before])
    origin = data["checkpoint"].partition("\n")[0]
    text = f"{origin}\n{len(before)}\n{base64.b64encode(top).decode()}\n"
    plain = {"size": len(before), "root": top.hex(), "checkpoint": text, "signatures": []}
    value["data"] = signed(plain, ALICE) if random.random() < 0.8 else plain


def proof(random: Random, seeds: Seeds) -> Input:
    """A proof with its structure, or an event in it, or a signature in that, changed."""
    made = seeds.input(random.choice(seeds.proofs))
    raw = made.files["input.json"]
    value = parsed(raw)
    texts = [name for name in ("event", "seal", "first", "second") if value and type(value.get(name)) is str]
    if value and texts and random.random() < 0.6:
        name = random.choice(texts)
        inner = parsed(value[name].encode("utf-8", "surrogatepass"))
        places = armours(inner) if inner else []
        if inner and places and random.random() < 0.5:
            holder, key = random.choice(places)
            holder[key] = some_armour(random, holder[key])
            value[name] = canon(exact(inner)).decode()
        else:
            value[name] = some_json(random, value[name].encode("utf-8", "replace")).decode("utf-8", "replace")
        raw = canon(exact(value)) + b"\n"
    else:
        raw = some_json(random, raw.removesuffix(b"\n")) + random.choice((b"\n", b"\n", b"\n", b"", b"\r\n"))
    return replace(made, files=made.files | {"input.json": raw})


def signers(random: Random, seeds: Seeds) -> Input:
    """What a file of allowed signers, or of revoked keys, says."""
    made = seeds.input(random.choice(seeds.signed))
    name = random.choice([one for one in made.files if not one.startswith("input")] or ["input.jsonl"])
    raw = made.files[name]
    if name.endswith(".signers") and random.random() < 0.7:
        raw = "".join(_signer_line(random) for _ in range(random.randint(1, 3))).encode()
    for _ in range(random.choice((0, 0, 1, 2))):
        text, at = raw.decode("utf-8", "replace"), random.randrange(len(raw) + 1)
        raw = (text[:at] + random.choice(_SIGNER_PIECES) + text[at:]).encode()
    raw = some_bytes(random, raw) if random.random() < 0.2 else raw
    return replace(made, kind="signers", files=made.files | {name: raw})


def _signer_line(random: Random) -> str:
    options = ",".join(random.choices(_SIGNER_OPTIONS, k=random.choice((0, 1, 1, 1, 2))))
    blank = random.choice((" ", " ", "\t", "  "))
    fields = ["alice", *([options] if options else []), ALICE.line, *random.choice(((), ("comment",), ("a", '"b')))]
    return random.choice(("", "", " ", "# ")) + blank.join(fields) + random.choice(("\n", "\n", "\r\n", " \n", ""))


def repository(random: Random, seeds: Seeds) -> Input:
    """A repository with an object changed, in place or with all that names it following; or a ref, or another file."""
    case = random.choice(seeds.repos)
    repo = seeds.repository(case)
    what = random.randrange(12)
    if what > 1 and repo.objects:
        _change_object(random, repo, follow=what > 3)
    files = _refs_and_config(repo)
    if what == 0 and repo.refs:
        name = random.choice(sorted(repo.refs))
        files[name] = some_bytes(random, files[name])
    elif what == 1:
        packed = b"".join(f"{target} {name}\n".encode() for name, target in repo.refs.items())
        files = {name: content for name, content in files.items() if name not in repo.refs}
        files["packed-refs"] = some_bytes(random, packed)
    files |= _stored(random, repo, damage=what == 2)
    made = {f"r.git/{name}": content for name, content in files.items()}
    arguments = tuple(one.replace("{input}", "{}/r.git") for one in case["args"])
    if any("{vectors}" in one for one in arguments):
        made["alice.signers"] = _ALICE
        arguments = ("--allowed-signers", "{}/alice.signers", "{}/r.git")
    return Input("repository", made, arguments, damaged=what in (2, 3) or any("/pack/" in name for name in made))


def _refs_and_config(repo: Repo) -> dict[str, bytes]:
    return {name: f"{target}\n".encode() for name, target in repo.refs.items()} | {
        "HEAD": b"ref: refs/heads/journal/main\n",
        "config": b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
    }


def _change_object(random: Random, repo: Repo, *, follow: bool) -> None:
    """Change one object; with ``follow`` it gets its own id, and all that names it another one, up to the refs."""
    name = random.choice(sorted(repo.objects))
    kind, data = repo.objects[name]
    change: Callable[[Random, bytes], bytes] = {"blob": some_json, "tree": some_entry}.get(kind, some_bytes)
    if not follow:
        repo.objects[name] = (kind, change(random, data))
        return
    for old, (now, kind, content) in following(repo.objects, name, change(random, data)).items():
        repo.objects[now] = (kind, content)
        repo.refs = {ref: now if target == old else target for ref, target in repo.refs.items()}


def _stored(random: Random, repo: Repo, *, damage: bool) -> dict[str, bytes]:
    """The objects as files: loose, one of them perhaps damaged; or in one pack (page, section 4); or both."""
    files = {path_of(name): loose(kind, data) for name, (kind, data) in repo.objects.items()}
    if random.random() < 0.3 and files:
        with suppress(RuntimeError):  # an object that git does not take stays loose, and so do all
            pack, index = some_pack(random, repo.objects)
            packed = {f"objects/pack/pack-{'0' * 40}.{end}": one for end, one in (("pack", pack), ("idx", index))}
            files = packed if random.random() < 0.7 else files | packed
    elif damage and files:
        name = random.choice(sorted(files))
        files[name] = some_bytes(random, files[name])
    return files


#: How inputs are made, and how often each way is taken.
WAYS: dict[Callable[[Random, Seeds], Input], int] = {
    events: 4,
    export: 3,
    chain: 4,
    rewritten: 3,
    proof: 4,
    signers: 3,
    repository: 6,
}


def inputs(seed: int, seeds: Seeds) -> Iterator[Input]:
    """Without end; the n-th one depends on the seed and n alone."""
    number = 0
    while True:
        number += 1
        random = Random(int.from_bytes(sha256(f"{seed} {number}".encode()).digest()))
        (way,) = random.choices(list(WAYS), list(WAYS.values()))
        yield way(random, seeds)
