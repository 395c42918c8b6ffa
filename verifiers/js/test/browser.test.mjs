// The page: its modules in Node, and the page itself in a headless Chromium, if there is one (CHROMIUM names another than the one in PATH).

import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import crypto from "node:crypto";
import { once } from "node:events";
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import test from "node:test";
import { host, verifyFile } from "../browser.mjs";
import { events, here, lines, newKey, scratchFolder, seal, sha } from "./kit.mjs";

const SEALED = (key) => events(9, (event, hashes) => {
  if (event.seq === 4) Object.assign(event, { files: [{ sha256: sha("sha256", "content"), size: 7, media_type: "text/plain" }] });
  if (event.seq === 8) seal(event, hashes, key);
});

/** A sealed export with one side file, its signers, and what the command line says of it. */
function sealedExport(t, kind) {
  const dir = scratchFolder(t);
  const file = path.join(dir, "x.jsonl");
  const key = newKey(kind);
  fs.writeFileSync(file, lines(SEALED(key)));
  fs.mkdirSync(`${file}.files`);
  fs.writeFileSync(`${file}.files/4.1`, "content");
  fs.writeFileSync(path.join(dir, "signers"), `ana ${key.line}\n`);
  const { stdout, status } = spawnSync(process.execPath, [here("cli.mjs"), "--allowed-signers", path.join(dir, "signers"), file], { encoding: "utf8" });
  return { dir, file, allowed: `ana ${key.line}\n`, text: stdout.trimEnd(), exit: status };
}

test("SHA-256 at all lengths around its blocks", () => {
  for (let size = 0; size < 200; size++) {
    const bytes = new Uint8Array(crypto.randomBytes(size));
    assert.equal(host.sha256(bytes), sha("sha256", bytes));
  }
});

for (const kind of ["ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ssh-rsa"]) {
  test(`the page's modules give the verdict of the command line: ${kind}`, async (t) => {
    const { file, allowed, text, exit } = sealedExport(t, kind);
    const named = (name, from) => Object.assign(new Blob([fs.readFileSync(from)]), { name });
    const result = await verifyFile(named("x.jsonl", file), [named("4.1", `${file}.files/4.1`)], { allowed });
    assert.deepEqual(result, { exit, text });
    assert.equal(exit, 0);
  });
}

// --- In a browser ----------------------------------------------------------------------------------------------------------------

const chromium = process.env.CHROMIUM ?? ["chromium", "chromium-browser", "google-chrome"].find((name) => spawnSync(name, ["--version"]).status === 0);

/** Starts a browser; gives send(method, params, session), the DevTools protocol over its pipe. */
function startBrowser(t) {
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), "verify-js-"));
  const args = ["--headless=new", "--remote-debugging-pipe", `--user-data-dir=${profile}`, "--no-first-run", ...(process.getuid() === 0 ? ["--no-sandbox"] : []), "about:blank"];
  const child = spawn(chromium, args, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
  t.after(async () => {
    child.kill();
    await once(child, "exit");
    // Children of the browser write for a moment after it has ended.
    for (let tries = 0; tries < 40 && fs.existsSync(profile); tries++) {
      await new Promise((resolve) => setTimeout(resolve, 250));
      try {
        fs.rmSync(profile, { recursive: true, force: true });
      } catch {
        // again, and in the end it is a folder in the system's temporary place
      }
    }
  });
  const waiting = new Map();
  let text = "";
  child.stdio[4].on("data", (chunk) => {
    const messages = (text + chunk).split("\0");
    text = messages.pop();
    for (const { id, result, error } of messages.map((message) => JSON.parse(message))) waiting.get(id)?.(error ? Promise.reject(new Error(error.message)) : result);
  });
  let last = 0;
  return (method, params = {}, sessionId = undefined) => new Promise((resolve) => {
    waiting.set(++last, resolve);
    child.stdio[3].write(`${JSON.stringify({ id: last, method, params, sessionId })}\0`);
  });
}

/** Opens a page, gives it the files and signers, presses the button; the text of its verdict. */
async function verifyInPage(send, url, { file, allowed }) {
  const { targetId } = await send("Target.createTarget", { url });
  const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
  const evaluate = async (expression) => (await send("Runtime.evaluate", { expression, awaitPromise: true }, sessionId)).result.value;
  const until = async (expression) => {
    for (let tries = 0; tries < 300; tries++) {
      if (await evaluate(expression)) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    assert.fail(`${expression} never came: ${await evaluate("document.body.innerText")}`);
  };
  await until('document.readyState === "complete" && document.getElementById("run") !== null');
  const { root } = await send("DOM.getDocument", {}, sessionId);
  for (const [selector, files] of [["#file", [file]], ["#sides", [`${file}.files/4.1`]]]) {
    const { nodeId } = await send("DOM.querySelector", { nodeId: root.nodeId, selector }, sessionId);
    await send("DOM.setFileInputFiles", { nodeId, files }, sessionId);
  }
  await evaluate(`document.getElementById("allowed").value = ${JSON.stringify(allowed)}; document.getElementById("run").click()`);
  await until('!document.getElementById("result").hidden');
  return evaluate('document.getElementById("json").textContent');
}

test("the page in a browser, served and as one file from the disk", { skip: !chromium && "no chromium", timeout: 180_000 }, async (t) => {
  const made = sealedExport(t, "ecdsa-sha2-nistp256");
  const send = startBrowser(t);
  const types = { ".html": "text/html", ".mjs": "text/javascript" };
  const server = http.createServer((request, response) => {
    const name = path.basename(request.url);
    response.writeHead(200, { "content-type": types[path.extname(name)] ?? "text/plain" }).end(fs.existsSync(here(name)) ? fs.readFileSync(here(name)) : "");
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const wanted = `${made.text}\n(exit 0)`;
  assert.equal(await verifyInPage(send, `http://127.0.0.1:${server.address().port}/browser.html`, made), wanted);
  const one = path.join(made.dir, "verifier.html");
  fs.writeFileSync(one, execFileSync(process.execPath, [here("onefile.mjs")]));
  assert.equal(await verifyInPage(send, `file://${one}`, made), wanted);
  const ed = sealedExport(t, "ssh-ed25519");
  const text = await verifyInPage(send, `file://${one}`, ed);
  // A browser without Ed25519 says that it did not check, and nothing else.
  assert.ok(text === `${ed.text}\n(exit 0)` || text.includes("signatures of a kind that is not checked here: 1"), text);
  t.diagnostic(text.includes("not checked here") ? "this browser has no Ed25519" : "this browser has Ed25519");
});
