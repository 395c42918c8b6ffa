// Merkle trees (RFC 9162 section 2.1) and the rules of a seal: section 9 of docs/verification.md. Hashes are hex.

import { encodeName, hasExactly } from "./event.mjs";
import { Bytes, base64, encoder, scratch } from "./json.mjs";

function merkle(host, tag, ...hashes) {
  scratch.clear().hex(tag);
  for (const hash of hashes) scratch.hex(hash);
  return host.sha256(scratch.view());
}

export const leafHash = (host, hash) => merkle(host, "00", hash);
const nodeHash = (host, left, right) => merkle(host, "01", left, right);

/** The tree over the event hashes so far: roots of its full subtrees, the largest first. */
export class Tree {
  size = 0;
  roots = [];

  constructor(host) {
    this.host = host;
  }

  push(hash) {
    let node = leafHash(this.host, hash);
    for (let n = this.size; n % 2 === 1; n = (n - 1) / 2) node = nodeHash(this.host, this.roots.pop(), node);
    this.roots.push(node);
    this.size++;
  }

  root() {
    return this.roots.reduceRight((right, left) => nodeHash(this.host, left, right));
  }
}

/** Section 2.1.3.2: the leaf at `index` of `size` leads to the root. */
export function isIncluded(host, leaf, index, size, path, root) {
  let [fn, sn, node] = [index, size - 1, leaf];
  for (const sibling of path) {
    if (sn === 0) return false;
    if (fn % 2 === 1 || fn === sn) {
      node = nodeHash(host, sibling, node);
      while (fn % 2 === 0 && fn !== 0) [fn, sn] = [fn >> 1, sn >> 1];
    } else {
      node = nodeHash(host, node, sibling);
    }
    [fn, sn] = [fn >> 1, sn >> 1];
  }
  return sn === 0 && node === root;
}

/** Section 2.1.4.2: the tree of `first` leaves is the beginning of that of `second` leaves. */
export function isConsistent(host, first, second, path, firstRoot, secondRoot) {
  if (first === second) return path.length === 0 && firstRoot === secondRoot;
  if (path.length === 0) return false;
  const [start, ...rest] = (first & (first - 1)) === 0 ? [firstRoot, ...path] : path;
  let [fn, sn, fr, sr] = [first - 1, second - 1, start, start];
  while (fn % 2 === 1) [fn, sn] = [fn >> 1, sn >> 1];
  for (const node of rest) {
    if (sn === 0) return false;
    if (fn % 2 === 1 || fn === sn) {
      fr = nodeHash(host, node, fr);
      sr = nodeHash(host, node, sr);
      while (fn % 2 === 0 && fn !== 0) [fn, sn] = [fn >> 1, sn >> 1];
    } else {
      sr = nodeHash(host, sr, node);
    }
    [fn, sn] = [fn >> 1, sn >> 1];
  }
  return sn === 0 && fr === firstRoot && sr === secondRoot;
}

// --- Seals and signatures, section 9 ------------------------------------------------------------------------------------------

export function checkpointOf(session, branch, size, root) {
  return `gitjournal/${session}/${branch}\n${size}\n${base64(new Bytes().hex(root).view())}\n`;
}

/** Rules 1 and 4, and that the root can be one. */
export function isSeal(data, seq) {
  return hasExactly(data, "checkpoint", "root", "signatures", "size") && data.size === seq - 1 && data.size > 0 &&
    typeof data.root === "string" && /^[0-9a-f]{64}$/.test(data.root) && typeof data.checkpoint === "string" &&
    Array.isArray(data.signatures) && data.signatures.every((signature) =>
      hasExactly(signature, "key", "sshsig") && typeof signature.key === "string" && typeof signature.sshsig === "string");
}

export function awaitSignatures(report, seal, seq, id) {
  const { signatures, checkpoint, size } = seal.data;
  const message = encoder.encode(checkpoint);
  for (const { key, sshsig } of signatures) {
    report.pending.push({ armour: sshsig, namespace: "gitjournal", message, time: seal.time, key, covers: size, seq, id });
  }
}

