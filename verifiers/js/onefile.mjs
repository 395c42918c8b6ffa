// Prints the page as one file that can be opened from the disk (browsers load no modules from there): node onefile.mjs > verifier.html
// It is browser.html with the modules in the place of its script; its policy allows that one script and nothing else.

import crypto from "node:crypto";
import fs from "node:fs";

const read = (name) => fs.readFileSync(new URL(name, import.meta.url), "utf8");
const modules = ["json", "event", "report", "seal", "line", "trust", "verify", "browser"].map((name) => read(`${name}.mjs`));
const script = `\n${modules.join("\n")}`.replace(/^import .*\n/gm, "").replace(/^export /gm, "").replaceAll("</script", "<\\/script");
const hash = crypto.createHash("sha256").update(script).digest("base64");
process.stdout.write(
  read("browser.html")
    .replace("script-src 'self'", `script-src 'sha256-${hash}'`)
    .replace('<script type="module" src="browser.mjs"></script>', () => `<script type="module">${script}</script>`),
);
