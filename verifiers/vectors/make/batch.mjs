/**
 * Runs the JavaScript verifier many times in one Node, for the vectors: starting one costs more than the verdict.
 *
 * A line of standard input is a file for the verdict and the arguments, each in base64 and separated by spaces; the
 * answer is a line with the exit status. The verifier is loaded anew for each, as what it does is done while it loads.
 */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const cli = pathToFileURL(process.argv[2]);
const write = fs.writeSync;
let said = [];
fs.writeSync = (fd, data, ...rest) => {
  if (fd === 1) said.push(Buffer.from(data));
  return fd === 1 || fd === 2 ? data.length : write(fd, data, ...rest);
};
syncBuiltinESMExports();

let number = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const [out, ...args] = line.split(" ").map((word) => Buffer.from(word, "base64").toString());
  process.argv = [process.argv[0], cli.pathname, ...args];
  process.exitCode = undefined;
  said = [];
  number += 1;
  await import(`${cli}?${number}`);
  fs.writeFileSync(out, Buffer.concat(said));
  write(1, `${process.exitCode ?? 0}\n`);
}
process.exitCode = 0;
