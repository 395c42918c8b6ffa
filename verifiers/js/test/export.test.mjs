import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import test from "node:test";
import { canonical, eventHash, events, findings, inclusionPath, lines, merkleRoot, newKey, scratchFolder, seal, sha, verify } from "./kit.mjs";

const demo = new URL("../../../docs/example/demo.jsonl", import.meta.url).pathname;

function checkText(t, text, ...args) {
  const file = path.join(scratchFolder(t), "x.jsonl");
  fs.writeFileSync(file, text);
  return verify(...args, file);
}
const check = (t, list, ...args) => checkText(t, lines(list), ...args);

test("the example of docs/format.md", () => {
  const { status, verdict } = verify(demo);
  assert.equal(status, 0);
  assert.equal(verdict.lines[0].head.hash, "b58139fd8bbf0445fa0cfda81e089c7c836f6210cc0908a294d1e4c382862cff");
  assert.equal(verdict.lines[0].side_files, 1);
});

// What is done to event 3 of 4, and what is found at once.
const FAULTS = {
  "bad-version": { v: 2 },
  "bad-member": { ts: "2026-02-29T00:00:00.000Z" },
  "bad-seq": { seq: 7 },
  "bad-epoch": { epoch: 0 },
  "broken-link": { prev: "0".repeat(64) },
  "bad-session": { session: "other" },
  "bad-fork": { type: "session.start" },
};
for (const [code, change] of Object.entries(FAULTS)) {
  test(`an event that is ${code}`, (t) => {
    const found = findings(check(t, events(4, (event) => event.seq === 3 && Object.assign(event, change))));
    assert.ok(found.includes(`${code} 3`), String(found));
  });
}

test("members of every wrong kind", (t) => {
  const wrong = { actor: ["", " a", "a".repeat(101), 1], turn: ["", null, "a b"], salt: ["AAECAwQFBgcICQoLDA0ODx", "short"], session: ["", "\u0085", "é".repeat(101), null], type: ["A", "a..b", "a".repeat(65)],
    data: [[], null, "x", { "$gj:file": 1 }, { a: [{ "$gj:x": 1 }] }, { "$gj:json": "1", b: 1 }, { "$gj:ref": [1, "a"] }], files: [[], {}, [{}], [null], [{ "media_type\nsha256\nsize": 1 }]],
    ts: ["2026-01-02T03:04:60.000Z", "2026-01-02T24:00:00.000Z", "1969-12-31T23:59:59.999Z", "2026-01-02 03:04:05.678Z"], unknown: [1], toJSON: [1], __proto__: [] };
  for (const [name, values] of Object.entries(wrong)) {
    for (const value of values) {
      const [one, two] = events(2, (event) => event.seq === 2 && Object.assign(event, { [name]: value }));
      assert.deepEqual(findings(check(t, [one, two])), ["bad-member 2"], `${name} ${JSON.stringify(value)}`);
    }
  }
  const own = canonical(events(2)[1]).replace("{", '{"__proto__":{"seq":2},');
  assert.deepEqual(findings(checkText(t, `${lines(events(1))}${own}\n`)), ["bad-member 2"]);
});

test("names that trouble JavaScript are data like any other", (t) => {
  const list = events(3, (event) => (event.data = JSON.parse('{"__proto__":{"toJSON":1},"constructor":{"prototype":null},"toJSON":1,"hasOwnProperty":2}')));
  assert.equal(check(t, list).status, 0);
});

test("withheld events are listed, also where it matters", (t) => {
  const list = events(6).map((event) => {
    const { data, ...header } = event;
    return [2, 3, 5].includes(event.seq) ? { ...header, data_sha256: sha("sha256", canonical({ data })) } : event;
  });
  const { verdict } = check(t, list);
  assert.deepEqual([verdict.verdict, verdict.lines[0].withheld], ["ok", [[2, 3], [5, 5]]]);
  assert.ok(verdict.unchecked.includes("the payloads of withheld events: 3"));
  for (const [type, code] of [["session.fork", "bad-fork"], ["session.branch", "bad-fork"], ["session.seal", "bad-seal"]]) {
    const [one, { data, ...header }] = events(2, (event) => event.seq === 2 && (event.type = type));
    assert.deepEqual(findings(check(t, [one, { ...header, data_sha256: "0".repeat(64) }])), [`${code} 2`]);
  }
});

test("lines: torn, too long, empty, lost", (t) => {
  const [one, two, three] = lines(events(3)).split("\n");
  assert.deepEqual(findings(checkText(t, `${one}\n${two}\n${three}`)), ["truncated 3"]);
  assert.deepEqual(findings(checkText(t, `${one}\n\n${three}\n`)), ["bad-json 2"]);
  assert.deepEqual(findings(checkText(t, `${one}\n"${"x".repeat(2 ** 24)}"\n${three}\n`)), ["bad-member 2"]);
  assert.equal(checkText(t, "").status, 4);
});

test("a thousand findings end it", (t) => {
  const result = checkText(t, "x\n".repeat(2000));
  assert.equal(result.verdict.lines[0].findings.length, 1000);
  assert.equal(result.verdict.unchecked.at(-1), "what comes after 1000 findings in a line");
});

test("side files: right, wrong, missing, a link", (t) => {
  const dir = scratchFolder(t);
  const file = path.join(dir, "x.jsonl");
  fs.mkdirSync(`${file}.files`);
  fs.writeFileSync(path.join(dir, "beside"), "content");
  const entry = { sha256: sha("sha256", "content"), size: 7, media_type: "text/plain" };
  fs.writeFileSync(file, lines(events(2, (event) => event.seq === 2 && Object.assign(event, { files: [entry, entry, entry], data: { a: { "$gj:ref": [3, "/x"] } } }))));
  fs.writeFileSync(`${file}.files/2.1`, "content");
  fs.writeFileSync(`${file}.files/2.2`, "c0ntent");
  fs.symlinkSync("../beside", `${file}.files/2.3`);
  const result = verify(file);
  assert.deepEqual(findings(result), ["bad-file 2", "missing-object 2"]);
  assert.equal(result.verdict.lines[0].side_files, 1);
});

test("branches and forks say where they come from", (t) => {
  const at = (seq, type, change, data) => events(5, (event, hashes) => {
    if (event.seq > seq) Object.assign(event, change);
    if (event.seq === seq) Object.assign(event, change, { type, data: data(hashes) });
  });
  const fork = (from) => at(4, "session.fork", { session: "f" }, (hashes) => ({ from: { session: "s", branch: "main", seq: 3, hash: hashes[2], ...from } }));
  const branch = (data, from) => at(4, "session.branch", {}, (hashes) => ({ branch: "b", from: { seq: 2, hash: hashes[1], ...from }, ...data }));
  for (const good of [fork({}), branch({}, {})]) assert.equal(check(t, good).status, 0);
  const bad = [fork({ seq: 2 }), fork({ session: "x" }), fork({ hash: null }), branch({ branch: "" }), branch({ branch: 1 }), branch({}, { seq: 4 }), branch({}, { seq: 0 }), branch({}, { hash: "x" }), branch({ from: [] })];
  for (const list of bad) assert.deepEqual(findings(check(t, list)), ["bad-fork 4"]);
});

test("an expected head", (t) => {
  const list = events(4);
  const expect = (seq, hash) => ["--expect-seq", String(seq), "--expect-head", hash];
  assert.equal(check(t, list, ...expect(3, eventHash(list[2]))).status, 0);
  assert.deepEqual(findings(check(t, list, ...expect(3, "0".repeat(64)))), ["rollback 3"]);
  assert.deepEqual(findings(check(t, list, ...expect(5, "0".repeat(64)))), ["truncated 4"]);
  for (const wrong of [["--expect-seq", "3"], expect(0, "0".repeat(64)), expect(3, "x"), ["--nonsense"]]) assert.equal(check(t, list, ...wrong).status, 2);
});

// --- Seals, signatures, proofs ---------------------------------------------------------------------------------------------------

const sealed = (keys, change = () => {}) => events(9, (event, hashes) => {
  if (event.seq === 5 || event.seq === 8) seal(event, hashes, ...keys);
  if (event.seq === 8) change(event.data);
});

function withSigners(t, text) {
  const file = path.join(scratchFolder(t), "signers");
  fs.writeFileSync(file, text);
  return ["--allowed-signers", file];
}

for (const kind of ["ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ssh-rsa"]) {
  test(`seals signed with ${kind}`, (t) => {
    const key = newKey(kind);
    const { status, verdict } = check(t, sealed([key]), ...withSigners(t, `# ours\nana,bob ${key.line} at home\n`));
    const [line] = verdict.lines;
    assert.deepEqual([status, line.seals, line.signatures, line.signed_to], [0, 2, 2, 7]);
    assert.deepEqual(line.signers, [{ key: key.fingerprint, principals: "ana,bob", signatures: 2 }]);
  });
}

test("a kind that is not checked makes it incomplete", (t) => {
  const { status, verdict } = check(t, sealed([newKey("ecdsa-sha2-nistp521")]));
  assert.equal(status, 3);
  assert.ok(verdict.unchecked.includes("signatures of a kind that is not checked here: 2"));
});

test("seals that do not agree with the events", (t) => {
  const changes = [(d) => (d.size = 6), (d) => (d.root = "0".repeat(64)), (d) => (d.root = "x"), (d) => (d.checkpoint = d.checkpoint.replace("main", "b")), (d) => (d.extra = 1), (d) => (d.signatures = {}),
    (d) => (d.signatures = [null]), (d) => delete d.checkpoint];
  for (const change of changes) assert.deepEqual(findings(check(t, sealed([], change))), ["bad-seal 8"]);
});

test("signatures that are wrong", (t) => {
  const [key, other] = [newKey("ssh-ed25519"), newKey("ssh-ed25519")];
  const changes = [(d) => (d.signatures[0].key = other.fingerprint), (d) => (d.signatures[0].sshsig = key.sign(d.checkpoint, "git")), (d) => (d.signatures[0].sshsig = key.sign("other", "gitjournal")),
    (d) => (d.signatures[0].sshsig = d.signatures[0].sshsig.replace("SSH S", "PGP S")), (d) => (d.signatures[0].sshsig += "\n"), (d) => (d.signatures[0].sshsig = ""), (d) => (d.signatures[0].sshsig = "\u{1f600}"),
    (d) => (d.signatures[0].sshsig = d.signatures[0].sshsig.replace(/\n(.)/, "\n=$1"))];
  for (const change of changes) assert.deepEqual(findings(check(t, sealed([key], change))), ["bad-signature 8"]);
});

test("every byte of a signature counts", (t) => {
  const key = newKey("ssh-ed25519");
  for (let at = 0; at < 180; at += 13) {
    const change = (data) => {
      const [first, ...body] = data.signatures[0].sshsig.trimEnd().split("\n");
      const bytes = Buffer.from(body.slice(0, -1).join(""), "base64");
      bytes[at] ^= 1;
      data.signatures[0].sshsig = [first, bytes.toString("base64"), body.at(-1)].join("\n");
    };
    // Flipped in the name of the kind, it is a kind that nobody knows; but then `key` is another one.
    assert.deepEqual(findings(check(t, sealed([key], change))), ["bad-signature 8"], `byte ${at}`);
  }
});

test("who may sign, for what, and when", (t) => {
  const key = newKey("ssh-ed25519");
  const list = sealed([key]);
  const accepted = ["ana namespaces=\"gitjournal\"", "ana NAMESPACES=\"x,git*\"", `ana namespaces="${"*".repeat(60)}l*"`, "ana valid-after=\"20260102\",valid-before=\"20260102030406Z\"", "ana valid-after=\"20260102030405\"", "ana cert-authority KEY\nbob"];
  const refused = ["ana namespaces=\"git\"", "ana namespaces=\"*,!gitjournal\"", `ana namespaces="${"*".repeat(60)}x"`, "ana valid-before=\"20260102030405\"", "ana valid-after=\"20260102030406\"", "ana cert-authority", "ana verify-required", "ana namespaces=\"\""];
  const unreadable = ["ana", "ana,namespaces=\"x\"y", "ana valid-after=\"20261301\"", "ana valid-after", "ana namespaces=\"a\",namespaces=\"b\"", "ana namespaces=\"a\",", "ana namespaces=\"a"];
  const run = (text) => check(t, list, ...withSigners(t, text.includes("KEY") ? `${text.replace("KEY", key.line)} ${key.line}` : `${text} ${key.line}`));
  for (const text of accepted) assert.equal(run(text).verdict.lines[0].signed_to, 7, text);
  for (const text of refused) assert.deepEqual(findings(run(text)), ["unknown-signer 5", "unknown-signer 8"], text);
  for (const text of unreadable.slice(2)) assert.equal(run(text).status, 2, text);
  for (const text of ["ana", "ana ssh-ed25519 AAAA", "ana ssh-rsa " + key.line.split(" ")[1], "\xff"]) assert.equal(check(t, list, ...withSigners(t, text)).status, 2);
  const revoked = withSigners(t, `${key.line}\n`)[1];
  assert.deepEqual(findings(check(t, list, ...withSigners(t, `ana ${key.line}`), "--revoked-keys", revoked)), ["unknown-signer 5", "unknown-signer 8"]);
  assert.deepEqual(findings(check(t, events(3), ...withSigners(t, `ana ${key.line}`), "--require-signed")), ["bad-signature null"]);
});

function checkProof(t, proof, ...args) {
  const file = path.join(scratchFolder(t), "p.json");
  fs.writeFileSync(file, typeof proof === "string" ? proof : `${canonical(proof)}\n`);
  return verify(...args, file);
}

test("proofs of one event, of every place in trees of every size", (t) => {
  for (const count of [1, 2, 3, 6, 7, 8, 13]) {
    const list = events(count + 1, (event, hashes) => event.seq === count + 1 && count > 0 && seal(event, hashes));
    const hashes = list.slice(0, -1).map(eventHash);
    for (const seq of new Set([1, Math.ceil(count / 2), count])) {
      const proof = { format: "gitjournal-proof", version: 1, kind: "inclusion", event: canonical(list[seq - 1]), path: inclusionPath(hashes, seq - 1), seal: canonical(list.at(-1)) };
      const { status, verdict } = checkProof(t, proof);
      assert.deepEqual([status, verdict.lines[0].seals, verdict.lines[0].head.seq], [0, 1, count], `${seq} of ${count}`);
      assert.deepEqual(findings(checkProof(t, { ...proof, path: [...proof.path, Buffer.alloc(32).toString("base64")] })), ["bad-seal null"]);
      if (count > 1) assert.deepEqual(findings(checkProof(t, { ...proof, event: canonical(list[seq % count]) })), ["bad-seal null"]);
    }
  }
});

test("proofs that break a rule", (t) => {
  const list = sealed([]);
  const proof = { format: "gitjournal-proof", version: 1, kind: "consistency", first: canonical(list[4]), second: canonical(list[7]), path: [] };
  // From a tree of 4 to one of 7: one node, the right half.
  proof.path = [Buffer.from(merkleRoot(list.slice(4, 7).map(eventHash)), "hex").toString("base64")];
  assert.equal(checkProof(t, proof).status, 0);
  assert.equal(checkProof(t, { ...proof, second: proof.first, path: [] }).status, 0);
  const code = (change) => findings(checkProof(t, typeof change === "string" ? change : { ...proof, ...change }));
  for (const change of [{ path: [] }, { second: proof.first }, { first: proof.second, second: proof.first }, { second: canonical(list[8]) }, { first: canonical(list[0]) }]) assert.deepEqual(code(change), ["bad-seal null"]);
  for (const change of [{ kind: "inclusion" }, { kind: null }, { path: ["AA=="] }, { path: [null] }, { path: new Array(65).fill(proof.path[0]) }, { extra: 1 }, { first: 1 }]) assert.deepEqual(code(change), ["bad-member null"]);
  for (const change of [{ version: 2 }, { format: "x" }, "{}\n"]) assert.deepEqual(code(change), ["bad-version null"]);
  for (const text of ["", "\n", "[]\n", "{", '{"a":1,"a":1}\n']) assert.deepEqual(code(text), ["bad-json null"]);
  for (const text of [canonical(proof), `${canonical(proof)}\n\n`, ` ${canonical(proof)}\n`]) assert.deepEqual(code(text), ["not-canonical null"]);
});
