// A client of `stockade mcp` made of the official TypeScript SDK, in either of its ages.
//
// node client.mjs CLIENTS PLAN: CLIENTS is the directory with `node_modules`, PLAN is JSON:
//   sdk      "initialize" (version 1 of the SDK) or "discover" (version 2, protocol 2026-07-28)
//   server   {command, args, cwd, env}
//   answers  how each elicitation is answered, in order: {action, content}; absent: no elicitation
//   calls    [{name, arguments, cancelOnProgress}], one after the other
// Prints JSON: {version, tools, results, questions, progress}.

import { createRequire } from 'node:module';

const [clients, plan] = [process.argv[2], JSON.parse(process.argv[3])];
const require = createRequire(`${clients}/package.json`);
const capabilities = plan.answers ? { elicitation: { form: {} } } : {};
const info = { name: 'stockade-test', version: '1.0.0' };
const questions = [];
const progress = [];

function answer(request) {
  questions.push(request.params.message);
  const next = plan.answers[Math.min(questions.length, plan.answers.length) - 1];
  return next;
}

async function initialized() {
  const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
  const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
  const { ElicitRequestSchema } = require('@modelcontextprotocol/sdk/types.js');
  const client = new Client(info, { capabilities });
  if (plan.answers) client.setRequestHandler(ElicitRequestSchema, answer);
  await client.connect(new StdioClientTransport({ ...plan.server, stderr: 'inherit' }));
  return { client, call: (call, options) => client.callTool(call, undefined, options) };
}

async function discovered() {
  const { Client } = require('@modelcontextprotocol/client');
  const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');
  const client = new Client(info, { capabilities, versionNegotiation: { mode: { pin: '2026-07-28' } } });
  if (plan.answers) client.setRequestHandler('elicitation/create', answer);
  await client.connect(new StdioClientTransport({ ...plan.server, stderr: 'inherit' }));
  return { client, call: (call, options) => client.callTool(call, options) };
}

const { client, call } = await (plan.sdk === 'discover' ? discovered() : initialized());
const { tools } = await client.listTools();
const results = [];
for (const { cancelOnProgress, ...params } of plan.calls) {
  const stop = new AbortController();
  const onprogress = (told) => {
    progress.push(told);
    if (cancelOnProgress && told.message.includes(cancelOnProgress)) stop.abort('cancelled by the test');
  };
  try {
    results.push(await call(params, { onprogress, signal: stop.signal, timeout: 120_000 }));
  } catch (error) {
    results.push({ thrown: String(error) });
  }
}
const version = client.getServerVersion();
const printed = JSON.stringify({ version, tools, results, questions, progress });
// What has to be seen of a server that still runs is looked for while standard input is open.
if (plan.wait) {
  process.stdout.write(`${printed}\n`);
  await new Promise((resolve) => process.stdin.on('data', resolve).on('end', resolve));
} else {
  process.stdout.write(`${printed}\n`);
}
await client.close();
process.exit(0);
