// Stands between codex and its exec-server, passes every line on, and puts requests of its own to codex for each process
// that is started: what codex answers to them goes to a file, and not to the server.
//
//     node between.mjs ANSWERS PROGRAM ARGUMENT…

import { spawn } from "node:child_process";
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [answers, program, ...words] = process.argv.slice(2);
const server = spawn(program, words, { stdio: ["pipe", "pipe", "inherit"] });
const starts = new Set();
const request = { protocol: "https_connect", host: "host.test", port: 443 };

// codex takes an id that is no number from zero on, or one that is under way, for the end of the connection.
function ask(id, method, params) {
  process.stdout.write(`${JSON.stringify({ id, method, params })}\n`);
}

createInterface({ input: process.stdin }).on("line", (line) => {
  const message = JSON.parse(line);
  if (message.method === "process/start") starts.add(message.id);
  if (message.method === undefined) {
    appendFileSync(answers, `${line}\n`);
  } else {
    server.stdin.write(`${line}\n`);
  }
}).on("close", () => server.stdin.end());

createInterface({ input: server.stdout }).on("line", (line) => {
  process.stdout.write(`${line}\n`);
  const message = JSON.parse(line);
  if (!starts.delete(message.id) || message.result === undefined) return;
  ask(1, "network/policyRequest", { processId: message.result.processId, request });
  ask(2, "network/policyRequest", { processId: "none", request });
  ask(3, "network/policyRequest", {});
  ask(4, "network/ask", { processId: message.result.processId, request });
});

server.on("exit", (code) => process.exit(code ?? 1));
