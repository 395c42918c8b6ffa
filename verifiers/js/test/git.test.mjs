import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import test from "node:test";
import zlib from "node:zlib";
import { canonical, events, findings, newKey, Repository, scratchFolder, seal, verify } from "./kit.mjs";

function repository(t, list = events(12), options = {}) {
  const made = new Repository(path.join(scratchFolder(t), "r"));
  made.list = list;
  made.commits = made.write(list, options);
  return made;
}
const check = ({ dir }, ...args) => verify(...args, dir);
const contentOf = (repo, id) => zlib.inflateSync(fs.readFileSync(repo.fileOf(id)));
const idsIn = (repo) => fs.readdirSync(path.join(repo.dir, "objects")).filter((name) => name.length === 2)
  .flatMap((name) => fs.readdirSync(path.join(repo.dir, "objects", name)).map((rest) => name + rest));

test("a journal, loose and packed", (t) => {
  const repo = repository(t);
  const { status, verdict } = check(repo);
  assert.deepEqual([status, verdict.lines[0].name, verdict.lines[0].head.commit], [0, "refs/heads/s/main", repo.commits.at(-1)]);
  execFileSync("git", ["--git-dir", repo.dir, "gc", "-q", "--prune=now"]);
  execFileSync("git", ["--git-dir", repo.dir, "pack-refs", "--all"]);
  assert.deepEqual(check(repo).verdict, verdict);
  assert.equal(verify(repo.dir, "s").status, 0);
  assert.equal(verify(repo.dir, "s/other").status, 4);
  assert.equal(verify(path.join(repo.dir, "objects")).status, 4);
});

test("a shallow clone is incomplete, and its commits that are there are checked", (t) => {
  const repo = repository(t);
  const clone = path.join(scratchFolder(t), "c");
  execFileSync("git", ["clone", "-q", "--bare", "--depth=3", `file://${repo.dir}`, clone, "--branch", "s/main"], { stdio: "ignore" });
  const { status, verdict } = verify(clone);
  assert.equal(status, 3);
  assert.ok(verdict.unchecked.includes("commits that a shallow history leaves out: 9"));
  fs.rmSync(path.join(clone, "shallow"));
  assert.deepEqual(findings(verify(clone)), ["missing-object 9"]);
});

test("every object that is flipped, lied about or gone is found", (t) => {
  const repo = repository(t, events(2));
  for (const id of idsIn(repo)) {
    const file = fs.readFileSync(repo.fileOf(id));
    const raw = contentOf(repo, id);
    const [type] = raw.toString("latin1").split(" ");
    const content = raw.subarray(raw.indexOf(0) + 1);
    const flipped = Buffer.from(content);
    flipped[flipped.length >> 1] ^= 1;
    const forge = {
      flip: () => repo.put(type, flipped, undefined, id),
      "other type": () => repo.put(type === "blob" ? "tree" : "blob", content, undefined, id),
      shorter: () => repo.put(type, content, `${type} ${content.length + 1000}`, id), // git prints less than it says, and then waits
      longer: () => repo.put(type, content, `${type} 1`, id),
      huge: () => repo.put(type, content, `${type} 6000000000`, id),
      noise: () => fs.writeFileSync(repo.fileOf(id), "noise"),
      empty: () => fs.writeFileSync(repo.fileOf(id), ""),
      gone: () => fs.rmSync(repo.fileOf(id)),
    };
    for (const [name, make] of Object.entries(forge)) {
      make();
      const result = check(repo);
      assert.equal(result.status, 1, `${name} ${type} ${id}`);
      const codes = result.verdict.lines[0].findings.map(({ code }) => code);
      const tooLarge = { blob: "bad-member", tree: "bad-tree", commit: "bad-commit" }[type];
      // What git cannot read the header of is "missing" to it.
      const wanted = { gone: ["missing-object"], noise: ["missing-object", "bad-object"], empty: ["missing-object", "bad-object"], huge: [tooLarge, "bad-object"] }[name] ?? ["bad-object"];
      assert.ok(codes.every((code) => wanted.includes(code)), `${name} ${type}: ${codes}`);
      fs.writeFileSync(repo.fileOf(id), file);
    }
  }
  assert.equal(check(repo).status, 0);
});

/** A tree or commit that says something else, with all commits behind it made anew. */
function forged(t, at, change) {
  const repo = repository(t);
  let parent = repo.commits[at - 2];
  for (const id of repo.commits.slice(at - 1)) {
    let text = contentOf(repo, id).subarray(contentOf(repo, id).indexOf(0) + 1).toString();
    text = text.replace(/\nparent .*/, `\nparent ${parent}`);
    if (id === repo.commits[at - 1]) text = change(text, repo);
    parent = repo.put("commit", text);
  }
  repo.point(parent);
  return repo;
}

const COMMITS = {
  "bad-hash": (text) => text.replace(/sha256:.*/, `sha256:${"0".repeat(64)}`),
  "bad-commit": (text) => text.replace("Session: s", "Session: other"),
  "bad-tree": (text, repo) => text.replace(/tree .*/, `tree ${repo.tree([])}`),
};
for (const [code, change] of Object.entries(COMMITS)) {
  test(`a commit in the middle that is ${code}`, (t) => assert.deepEqual(findings(check(forged(t, 5, change))), [`${code} 5`]));
}

test("commits in another form", (t) => {
  const changes = [(text) => text.replace("\n\n", "\nencoding x\n\n"), (text) => text + "\n", (text) => text.replaceAll("\n", "\r\n"), (text) => text.replace("\nauthor", `\nparent ${"1".repeat(40)}\nauthor`),
    (text) => text.replace("#5", "#5\0"), (text) => text.replace("> 1", "> -1"), (text) => text.replace("\n\n", "\ngpgsig x\n\n"), (text) => text.replace("host <", "other <")];
  for (const change of changes) assert.deepEqual(findings(check(forged(t, 5, change))), ["bad-commit 5"]);
  assert.deepEqual(findings(check(forged(t, 5, (text) => text.replace(/\nparent .*/, "")))), ["bad-commit 5"]);
  assert.deepEqual(findings(check(forged(t, 12, (text) => text.slice(1)))), ["bad-commit null"]);
});

test("a first commit with a parent", (t) => {
  const repo = forged(t, 1, (text) => text.replace("\nauthor", `\nparent ${"1".repeat(40)}\nauthor`));
  assert.deepEqual(findings(check(repo)), ["bad-commit 1", "bad-tree 1"]);
});

test("trees with more, less or other entries", (t) => {
  const swap = ([one, two, ...rest]) => [one, [two[0], two[1], one[2]], ...rest];
  const changes = { "bad-tree": [(leaf) => [...leaf, leaf[0]], (leaf) => [...leaf, ["100644", "x", leaf[0][2]]], (leaf) => [["100755", ...leaf[0].slice(1)], ...leaf.slice(1)], (leaf) => [["120000", ...leaf[0].slice(1)], ...leaf.slice(1)],
    (leaf) => [...leaf, ["40000", "00000001.1", leaf[0][2]]], (leaf) => [...leaf, ["100644", "00000001.01", leaf[0][2]]]], "missing-object": [(leaf) => leaf.slice(1)], "bad-seq": [swap] };
  for (const [code, list] of Object.entries(changes)) {
    for (const change of list) {
      const leaf = (entries, { seq }) => (seq === 12 ? change(entries) : entries); // only the head's tree
      assert.ok(findings(check(repository(t, events(12), { leaf }))).some((found) => found.startsWith(code)), `${code} ${change}`);
    }
  }
});

test("a side file entry that no event names", (t) => {
  const leaf = (entries, { seq }) => (seq < 5 ? entries : [...entries.slice(0, 4), ["100644", "00000005.1", entries[0][2]], ...entries.slice(4)]);
  const repo = repository(t, events(12), { leaf });
  assert.deepEqual(findings(check(repo)), ["bad-file 5"]);
});

test("equivocation, and a branch that is declared", (t) => {
  const repo = repository(t);
  const other = events(12, (event) => event.seq > 6 && (event.data = { other: event.seq }));
  repo.point(repo.write(other).at(-1), "s/b");
  repo.point(repo.commits.at(-1));
  const { verdict } = check(repo);
  assert.deepEqual(verdict.lines.map(({ findings: found }) => found.map(({ code, seq }) => `${code} ${seq}`)), [["wrong-ref null"], ["equivocation 7"]]);
  const declared = events(12, (event, hashes) => {
    if (event.seq > 6) event.data = { other: event.seq };
    if (event.seq === 12) Object.assign(event, { type: "session.branch", data: { branch: "b", from: { branch: "main", seq: 6, hash: hashes[5] } } });
  });
  repo.point(repo.write(declared).at(-1), "s/b");
  repo.point(repo.commits.at(-1));
  assert.equal(check(repo).status, 0);
});

test("refs: links, pipes, text, foreign names", (t) => {
  const repo = repository(t);
  const at = (name) => path.join(repo.dir, "refs/heads", name);
  const id = repo.commits.at(-1);
  fs.mkdirSync(at("s/deep"));
  fs.mkdirSync(path.join(repo.dir, "refs/remotes/o/s"), { recursive: true });
  const texts = { "s/short": id.slice(1), "s/upper": `${id.toUpperCase()}\n`, "s/symbolic": "ref: refs/heads/s/main\n", "s/bare": id, "s/a.lock": "", "s/%2F%": id, "s/%61": id, single: id, "s/deep/er": id };
  for (const [name, text] of Object.entries(texts)) fs.writeFileSync(at(name), text);
  fs.writeFileSync(path.join(repo.dir, "refs/remotes/o/HEAD"), "ref: x\n");
  fs.writeFileSync(path.join(repo.dir, "refs/remotes/o/s/main"), `${id}\n`);
  fs.symlinkSync("main", at("s/link"));
  execFileSync("mkfifo", [at("s/pipe")]);
  fs.writeFileSync(path.join(repo.dir, "packed-refs"), `# pack-refs\n${"0".repeat(40)} refs/heads/s/main\n^${id}\nnonsense\n${id} refs/tags/s/main\n${id} refs/heads/s/packed\n`);
  const { verdict } = check(repo);
  const byName = Object.fromEntries(verdict.lines.map((line) => [line.name, line.findings.map(({ code }) => code).join()]));
  const bad = "wrong-ref";
  assert.deepEqual(byName, { "refs/heads/s/bare": bad, "refs/heads/s/link": bad, "refs/heads/s/main": "", "refs/heads/s/packed": bad, "refs/heads/s/pipe": bad, "refs/heads/s/short": bad, "refs/heads/s/symbolic": bad,
    "refs/heads/s/upper": bad, "refs/remotes/o/s/main": "" });
  assert.ok(verdict.unchecked.includes("refs that are no line of a journal: 4"));
});

test("nothing in the repository runs or has a say", (t) => {
  const repo = repository(t);
  const good = check(repo).verdict;
  const mark = path.join(repo.dir, "ran");
  const run = `touch ${mark}; false`;
  fs.appendFileSync(path.join(repo.dir, "config"), `[core]\n\tfsmonitor = ${run}\n\tsshCommand = ${run}\n\thooksPath = hooks\n[alias]\n\tcat-file = !${run}\n[remote "p"]\n\turl = ext::sh -c "${run}"\n\tpromisor = true\n` +
    `[extensions]\n\tpartialClone = p\n[gpg "ssh"]\n\tprogram = ${run}\n`);
  fs.mkdirSync(path.join(repo.dir, "hooks"));
  fs.writeFileSync(path.join(repo.dir, "hooks/reference-transaction"), `#!/bin/sh\n${run}\n`, { mode: 0o755 });
  fs.mkdirSync(path.join(repo.dir, "refs/replace"));
  fs.writeFileSync(path.join(repo.dir, "refs/replace", repo.commits[4]), `${repo.commits[5]}\n`);
  fs.mkdirSync(path.join(repo.dir, "info"));
  fs.writeFileSync(path.join(repo.dir, "info/grafts"), `${repo.commits[6]}\n`);
  assert.deepEqual(check(repo).verdict, good);
  fs.rmSync(repo.fileOf(repo.commits[4]));
  assert.deepEqual(findings(check(repo)), ["missing-object 5"]);
  assert.ok(!fs.existsSync(mark));
});

test("signed commits and seals, and signatures that were moved", (t) => {
  const key = newKey("ssh-ed25519");
  const list = events(12, (event, hashes) => event.seq === 9 && seal(event, hashes, key));
  const repo = repository(t, list, { sign: (event, text) => (event.seq % 3 === 0 ? key.sign(text, "git") : "") });
  const signers = path.join(repo.dir, "signers");
  fs.writeFileSync(signers, `ana ${key.line}\n`);
  const { status, verdict } = check(repo, "--allowed-signers", signers);
  assert.deepEqual([status, verdict.lines[0].signatures, verdict.lines[0].signed_to, verdict.lines[0].seals], [0, 5, 12, 1]);
  assert.equal(check(repo).status, 3);
  let kept;
  const moved = repository(t, events(12), { sign: (event, text) => (event.seq === 3 ? (kept = key.sign(text, "git")) : event.seq === 6 ? kept : "") });
  assert.deepEqual(findings(check(moved)), ["bad-signature 6"]);
  const otherSpace = repository(t, events(12), { sign: (event, text) => (event.seq === 6 ? key.sign(text, "gitjournal") : "") });
  assert.deepEqual(findings(check(otherSpace)), ["bad-signature 6"]);
});

test("a forged head that claims a hundred million events ends soon", (t) => {
  const repo = repository(t);
  const text = contentOf(repo, repo.commits[11]).toString().split("\0")[1].replace("#12", "#99999999");
  repo.point(repo.put("commit", text));
  const { status, verdict } = check(repo);
  assert.deepEqual([status, verdict.lines[0].findings.length], [1, 1000]);
});

test("an event that changes and keeps its chain is still not the one of its commit", (t) => {
  const repo = repository(t);
  const changed = canonical({ ...repo.list[3], data: { n: "changed" } });
  const id = repo.put("blob", changed);
  const entries = repo.list.map((event) => ["100644", `${String(event.seq).padStart(8, "0")}.json`, event.seq === 4 ? id : repo.put("blob", canonical(event))]);
  const root = repo.tree([["40000", "0000", repo.tree([["40000", "00", repo.tree(entries)]])]]);
  const text = contentOf(repo, repo.commits[11]).toString().split("\0")[1].replace(/tree .*/, `tree ${root}`);
  repo.point(repo.put("commit", text));
  assert.deepEqual(findings(check(repo)), ["bad-hash 4", "broken-link 5"]);
});
