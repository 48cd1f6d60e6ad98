// The corner cases of the transport, with a server that says what a well-behaved one would not.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  BusyError,
  ConnectionError,
  FailedError,
  FrameTooLargeError,
  InvalidParamsError,
  InvalidRequestError,
  NotPermittedError,
  ProtocolError,
  ServerError,
  SessionClosedError,
  Stockade,
  UnknownCommandError,
  UnknownMethodError,
  UnknownQuestionError,
  UnknownSessionError,
  UnusableAnswerError,
  type Command,
  type Question,
  type Session,
  type SessionEvent,
} from "@stockade/client";
import { EXITED, FakeServer, LIMITS, settled, STATE } from "./fake.js";

async function session(options: Parameters<Stockade["open"]>[0] = {}, errors: unknown[] = []) {
  const server = new FakeServer();
  const client = await server.connect({ onError: (error) => errors.push(error) });
  return { server, client, session: await client.open(options) };
}

/** Starts a command that the server does not answer until the test says so. */
async function started(server: FakeServer, session: Session, options: Parameters<Session["start"]>[1] = {}) {
  const command = session.start(["x"], options);
  const runs = await server.sent("command/run");
  const id = runs.at(-1)?.id;
  const end = () => server.send({ id, result: { command_id: command.id, outcome: EXITED, last_seq: 0 } });
  return { command, end };
}

function output(server: FakeServer, command: Command, seq: number, data: string) {
  server.tell("command/output", { command_id: command.id, seq, stream: "stdout", data });
}

const REQUEST = {
  id: "r1",
  thread_id: "s1",
  subject: { command: { command: ["ls"], cwd: "/w", parsed: { commands: [] }, escalation: "unsandboxed" } },
  available_decisions: ["approved", "denied", "abort"],
};

function ask(server: FakeServer, id = "q1", request: object = REQUEST) {
  server.send({ id: `server-${id}`, method: "approval/request", params: { session_id: "s1", question_id: id, request } });
  return server.answer(`server-${id}`);
}

describe("frames", () => {
  test("a message may be cut anywhere, also inside a character", async () => {
    const { server, client } = await session();
    const listed = client.sessions();
    const [request] = await server.sent("session/list");
    const line = JSON.stringify({ jsonrpc: "2.0", id: request?.id, result: { sessions: [{ name: "ä€😀" }] } });
    for (const byte of Buffer.from(`${line}\n`)) server.write(Uint8Array.of(byte));
    assert.equal((await listed)[0]?.name, "ä€😀");
  });

  test("several messages may come at once, with empty lines between them", async () => {
    const { server, client } = await session();
    const [first, second] = [client.sessions(), client.sessions()];
    const requests = await server.sent("session/list", 2);
    const lines = requests.map(({ id }) => JSON.stringify({ jsonrpc: "2.0", id, result: { sessions: [] } }));
    server.write(`\n${lines.reverse().join("\n\n")}\n`);
    assert.deepEqual(await Promise.all([first, second]), [[], []]);
  });

  for (const [what, bytes] of [
    ["no JSON", "{nonsense}\n"],
    ["no UTF-8", Buffer.concat([Buffer.from('{"jsonrpc":"2.0","id":3,"result":{"sessions":["'), Buffer.of(0xff), Buffer.from('"]}}\n')])],
    ["a list", "[]\n"],
    ["an answer to nothing", '{"jsonrpc":"2.0","id":99,"result":{}}\n'],
    ["neither a result nor an error", '{"jsonrpc":"2.0","id":3}\n'],
  ] as const) {
    test(`a line that is ${what} fails the calls that are under way`, async () => {
      const { server, client } = await session();
      const listed = client.sessions();
      await server.sent("session/list");
      server.write(bytes);
      await assert.rejects(listed, ProtocolError);
    });
  }

  test("a message that is too long is not kept in memory", async () => {
    const server = new FakeServer();
    const client = await server.connect({ maxFrameBytes: 1000 });
    const listed = client.sessions();
    await server.sent("session/list");
    server.write("x".repeat(1001));
    await assert.rejects(listed, (error: Error) => error instanceof ProtocolError && /1000 bytes/.test(error.message));
    await assert.rejects(client.sessions(), ProtocolError);
  });

  test("a message that the server would skip is not sent", async () => {
    const { client, session: opened } = await session();
    await assert.rejects(opened.patch("x".repeat(LIMITS.frame_bytes)), FrameTooLargeError);
    const listed = client.sessions();
    await client.close();
    await assert.rejects(listed, ConnectionError);
  });

  test("an error without an id ends the connection, since no call can be told", async () => {
    const { server, client } = await session();
    const listed = client.sessions();
    await server.sent("session/list");
    server.send({ id: null, error: { code: -32600, message: "too long" } });
    await assert.rejects(listed, InvalidRequestError);
  });

  test("an answer that can't be used fails its call, a notification the connection", async () => {
    const { server, client, session: opened } = await session();
    server.handlers["command/run"] = () => ({ command_id: "c", last_seq: 0 });
    await assert.rejects(opened.run(["x"]), ProtocolError);
    const listed = client.sessions();
    server.send({ method: "command/ended", params: { session_id: "s1", command_id: "c" } });
    await assert.rejects(listed, ProtocolError);
  });

  test("notifications and sessions that are not known are passed over, unknown requests are answered", async () => {
    const { server, client } = await session();
    server.tell("weather/changed", { rain: true });
    server.send({ method: "command/output", params: { session_id: "other", command_id: "c", seq: 1, stream: "stdout", data: "" } });
    server.send({ id: "w", method: "weather/get", params: {} });
    assert.equal((await server.answer("w")).error?.code, -32601);
    server.handlers["session/list"] = () => ({ sessions: [] });
    assert.deepEqual(await client.sessions(), []);
  });
});

describe("errors", () => {
  const kinds: Array<[number, typeof ServerError]> = [
    [-32601, UnknownMethodError],
    [-32602, InvalidParamsError],
    [-32001, UnknownSessionError],
    [-32002, NotPermittedError],
    [-32003, UnknownCommandError],
    [-32004, BusyError],
    [-32005, FailedError],
    [-32006, UnknownQuestionError],
    [-32007, UnusableAnswerError],
    [-32008, SessionClosedError],
    [-12345, ServerError],
  ];
  for (const [code, kind] of kinds) {
    test(`${code} is a ${kind.name}`, async () => {
      const { server, client } = await session();
      server.handlers["session/list"] = () => {
        throw { code, message: "no", data: { kind: "k", causes: ["a", "b"] } };
      };
      await assert.rejects(client.sessions(), (error: ServerError) => {
        assert.equal(error.constructor, kind);
        assert.deepEqual([error.name, error.message, error.code, error.kind], [kind.name, "no", code, "k"]);
        if (error instanceof FailedError) assert.deepEqual(error.causes, ["a", "b"]);
        return true;
      });
    });
  }

  test("a version that the server does not speak", async () => {
    const server = new FakeServer();
    server.handlers["initialize"] = () => {
      throw { code: -32602, message: "version", data: { kind: "invalid_params", supported: [2] } };
    };
    await assert.rejects(server.connect(), (error: InvalidParamsError) => error.supported?.[0] === 2);
  });

  test("connecting can be given up", async () => {
    const server = new FakeServer();
    delete server.handlers["initialize"];
    await assert.rejects(server.connect({ signal: AbortSignal.timeout(10) }), { name: "TimeoutError" });
    await assert.rejects(new FakeServer().connect({ signal: AbortSignal.abort(new Error("mine")) }), /mine/);
  });

  test("a program that is not there, and one that is no server", async () => {
    await assert.rejects(Stockade.connect({ command: ["/nowhere/stockade"] }), /can't start `\/nowhere\/stockade`/);
    const other = Stockade.connect({ command: [process.execPath, "-e", "console.error('no such thing'); process.exit(3)"] });
    await assert.rejects(other, (error: Error) => error instanceof ConnectionError && /exit code 3: no such thing/.test(error.message));
    await assert.rejects(Stockade.connect({ socket: "/nowhere/serve.sock" }), /no server listens at \/nowhere/);
  });
});

describe("a server that vanishes", () => {
  test("ends calls, readers, waits and sessions, and rejects nothing that nobody waits for", async () => {
    const { server, client, session: opened } = await session();
    const { command } = await started(server, opened);
    const ignored = await started(server, opened);
    server.handlers["command/attach"] = () => ({ state: "running", first_seq: 1, last_seq: 1 });
    const followed = await opened.follow("c1");
    const listed = client.sessions();
    output(server, command, 1, "before");
    const read: string[] = [];
    const reading = (async () => {
      for await (const chunk of command) read.push(chunk.text);
    })();
    server.vanish();
    await assert.rejects(listed, /the fake server has gone/);
    await assert.rejects(reading, ConnectionError);
    await assert.rejects(command.wait(), ConnectionError);
    assert.deepEqual(read, ["before"]);
    await assert.rejects(followed.wait(), ConnectionError);
    assert.equal(ignored.command.running, false);
    await assert.rejects(opened.run(["x"]), ConnectionError);
    await settled();
  });

  test("closing is quiet and can be done twice", async () => {
    const { client, session: opened, server } = await session();
    const { command } = await started(server, opened);
    await client.close();
    await client.close();
    await opened[Symbol.asyncDispose]();
    await command[Symbol.asyncDispose]();
    await assert.rejects(command.wait(), ConnectionError);
  });
});

describe("output", () => {
  test("a reader that stands still holds up nothing else, and nothing is acknowledged for it", async () => {
    const { server, client, session: opened } = await session();
    server.handlers["session/list"] = () => ({ sessions: [] });
    const { command, end } = await started(server, opened);
    assert.equal(server.received.find(({ method }) => method === "command/run")?.params?.["acknowledge"], true);
    const reader = command[Symbol.asyncIterator]();
    for (let seq = 1; seq <= 8; seq++) output(server, command, seq, "x".repeat(32 * 1024));
    assert.equal((await reader.next()).value?.seq, 1);
    assert.deepEqual(await client.sessions(), []);
    assert.deepEqual(server.received.filter(({ method }) => method === "command/ack"), []);
    for (let seq = 2; seq <= 8; seq++) assert.equal((await reader.next()).value?.seq, seq);
    const acks = await server.sent("command/ack", 3);
    assert.deepEqual(acks.map(({ params, id }) => [params?.["seq"], params?.["command_id"], id]), [2, 4, 6].map((seq) => [seq, command.id, undefined]));
    end();
    assert.equal((await reader.next()).done, true);
    assert.equal((await command.wait()).ok, true);
  });

  test("what comes before the first look at it is kept", async () => {
    const { server, session: opened } = await session();
    const { command, end } = await started(server, opened);
    output(server, command, 1, "a");
    output(server, command, 2, "b");
    end();
    await settled();
    const read: string[] = [];
    for await (const { text } of command) read.push(text);
    assert.deepEqual(read, ["a", "b"]);
  });

  test("a reader that stops lets the command run on", async () => {
    const { server, session: opened } = await session();
    const { command, end } = await started(server, opened);
    for (let seq = 1; seq <= 4; seq++) output(server, command, seq, "x".repeat(64 * 1024));
    for await (const chunk of command) if (chunk.seq === 1) break;
    assert.equal((await server.sent("command/ack", 3)).at(-1)?.params?.["seq"], 4);
    output(server, command, 5, "x".repeat(64 * 1024));
    assert.equal((await server.sent("command/ack", 4)).at(-1)?.params?.["seq"], 5);
    end();
    assert.equal((await command.wait()).status, "exited");
  });

  test("waiting without a reader throws output away, and says so to a late reader", async () => {
    const { server, session: opened } = await session();
    const { command, end } = await started(server, opened);
    const ended = command.wait();
    output(server, command, 1, "x".repeat(64 * 1024));
    await server.sent("command/ack");
    assert.throws(() => command[Symbol.asyncIterator](), /read it before `wait\(\)`/);
    end();
    await ended;
  });

  test("a run whose listener fails is cancelled", async () => {
    const { server, session: opened } = await session();
    const running = opened.run(["x"], {
      onOutput: () => {
        throw new Error("listener");
      },
    });
    const [run] = await server.sent("command/run");
    const command_id: string = run?.params?.["command_id"];
    server.tell("command/output", { command_id, seq: 1, stream: "stderr", data: { hex: "ff" } });
    server.handlers["command/cancel"] = () => ({ was_running: true });
    await server.sent("command/cancel");
    server.send({ id: run?.id, result: { command_id, outcome: EXITED, last_seq: 1 } });
    await assert.rejects(running, /listener/);
  });
});

describe("aborting", () => {
  test("cancels the command, and rejects once it has ended", async () => {
    const { server, session: opened } = await session();
    server.handlers["command/cancel"] = () => ({ was_running: true });
    const controller = new AbortController();
    let done = false;
    const run = opened.run(["x"], { signal: controller.signal }).finally(() => (done = true));
    const [{ id, params } = {}] = await server.sent("command/run");
    controller.abort(new Error("enough"));
    const [cancel] = await server.sent("command/cancel");
    assert.equal(cancel?.params?.["command_id"], params?.["command_id"]);
    await settled();
    assert.equal(done, false);
    server.send({ id, result: { command_id: params?.["command_id"], outcome: EXITED, last_seq: 0 } });
    await assert.rejects(run, /enough/);
  });

  test("beforehand starts nothing; afterwards changes nothing", async () => {
    const { server, session: opened } = await session();
    await assert.rejects(opened.run(["x"], { signal: AbortSignal.abort(new Error("early")) }), /early/);
    assert.throws(() => opened.start(["x"], { signal: AbortSignal.abort(new Error("early")) }), /early/);
    const controller = new AbortController();
    const { command, end } = await started(server, opened, { signal: controller.signal });
    end();
    await command.wait();
    controller.abort();
    await settled();
    assert.deepEqual(server.received.filter(({ method }) => method === "command/cancel"), []);
  });
});

describe("input", () => {
  test("is cut into messages that the server takes, in order", async () => {
    const server = new FakeServer();
    server.handlers["initialize"] = () => ({ protocol_version: 1, server: { name: "fake", version: "0" }, methods: [], limits: { frame_bytes: 4 << 20 } });
    server.handlers["command/write"] = () => ({});
    const opened = await (await server.connect()).open();
    const command = opened.start(["cat"], { stdin: "pipe" });
    const text = "ä".repeat(300_001);
    await Promise.all([command.write(text), command.write(Uint8Array.of(0xff)), command.end()]);
    const writes = await server.sent("command/write", 5);
    const bytes = writes.map(({ params }) => {
      const data = params?.["data"] as string | { hex: string };
      return typeof data === "string" ? Buffer.from(data) : Buffer.from(data.hex, "hex");
    });
    assert.deepEqual(Buffer.concat(bytes), Buffer.concat([Buffer.from(text), Buffer.of(0xff)]));
    assert.deepEqual(writes.map(({ params }) => params?.["close"]), [false, false, false, false, true]);
  });

  test("words are text where they are UTF-8, and hexadecimal where they are not", async () => {
    const { server, session: opened } = await session();
    opened.start(["a", Buffer.from("\ufeffä"), Uint8Array.of(0x66, 0xff)], { environment: { A: "1", B: undefined } });
    const [run] = await server.sent("command/run");
    assert.deepEqual(run?.params?.["command"], ["a", "\ufeffä", { hex: "66ff" }]);
    assert.deepEqual(run?.params?.["environment"], { A: "1" });
  });
});

describe("questions", () => {
  test("are answered with what the handler returns", async () => {
    const { server } = await session({ onQuestion: (question) => question.deny("not today") });
    assert.deepEqual((await ask(server)).result, { id: "r1", decision: { denied: { rejection: "not today" } } });
  });

  test("without a handler are left to others", async () => {
    const { server } = await session();
    assert.equal((await ask(server)).error?.code, -32000);
    const open = server.received.find(({ method }) => method === "session/open");
    assert.equal(open?.params?.["ask"], "never");
  });

  test("whose handler fails, or gives an answer that is not offered, are left to others and reported", async () => {
    const errors: unknown[] = [];
    const { server } = await session({ onQuestion: (question) => question.approveForSession() }, errors);
    assert.ok((await ask(server)).error);
    assert.match(String(errors[0]), /`approved_for_session` is not offered for this question: there are approved, denied, abort/);
  });

  test("that are answered elsewhere abort their signal", async () => {
    const errors: unknown[] = [];
    const events: SessionEvent[] = [];
    const seen: Question[] = [];
    const { server } = await session(
      {
        onQuestion: async (question) => {
          seen.push(question);
          await new Promise((_, reject) => question.signal.addEventListener("abort", () => reject(question.signal.reason)));
        },
        onEvent: (event) => events.push(event),
      },
      errors,
    );
    const answer = ask(server);
    await settled();
    server.tell("approval/resolved", { question_id: "q1", decision: "approved", answered_by: "other" });
    assert.ok((await answer).error);
    assert.equal(seen[0]?.signal.aborted, true);
    assert.deepEqual([errors, events[0]?.type], [[], "question_resolved"]);
  });

  test("may arrive before the session that asks them is known to be attached", async () => {
    const server = new FakeServer();
    const client = await server.connect();
    delete server.handlers["session/attach"];
    const attached = client.attach("s1", "secret", { onQuestion: (question) => question.approve() });
    const [request] = await server.sent("session/attach");
    assert.deepEqual((await ask(server)).result, { id: "r1", decision: "approved" });
    server.send({ id: request?.id, result: STATE });
    assert.equal((await attached).state.cwd, "/w");
    await assert.rejects(client.attach("s1", "secret"), /attached to s1 already/);
  });

  test("say in a line what would happen, and nothing in it can hide the rest", async () => {
    const texts: string[] = [];
    const { server } = await session({ onQuestion: (question) => void texts.push(question.text) });
    const command = { command: ["rm", "a b", "\u202e\u001b[2J"], cwd: "/w", parsed: { commands: [] } };
    const permissions = { files: [{ target: { path: "/etc" }, access: "write" }], network: { hosts: { rules: [{ host: "a.example", decision: "allow", port: 443 }] } } };
    const [justification, resolved_paths] = ["it\nhelps", [{ given: "/w/link", resolved: "/etc" }]];
    await ask(server, "1", { ...REQUEST, reason: "denied", resolved_paths, subject: { command: { ...command, justification, escalation: { permissions } } } });
    await ask(server, "2", { ...REQUEST, subject: { patch: { changes: [{ add: { path: "/w/a", content: "" } }, { delete: { path: "/w/b", content: "" } }] } } });
    await ask(server, "3", { ...REQUEST, subject: { network: { host: "a.example", port: 443, protocol: "https" } } });
    await ask(server, "4", { ...REQUEST, subject: { tool_call: { server: "files", tool: "read" } } });
    await ask(server, "5", { ...REQUEST, subject: { elicitation: { server: "files", message: "Which?" } } });
    await ask(server, "6", { ...REQUEST, subject: { permissions: { permissions } } });
    const others = { network: "full", unix_sockets: ["/s"], environment: { inherit: "all", set: { KEY: "secret" }, include_only: ["A*"] }, limits: { open_files: 9 } };
    await ask(server, "7", { ...REQUEST, subject: { permissions: { permissions: others } } });
    assert.deepEqual(texts, [
      "Run `rm 'a b' '\\u{202e}\\u{1b}[2J'` in /w with write access to /etc, a connection to a.example:443? (denied) " +
        '/w/link leads to /etc. The requester says: "it\\u{a}helps"',
      "Change /w/a, /w/b?",
      "Connect to a.example:443 (https)?",
      "Call the tool read of files?",
      "files asks: Which?",
      "Let the session have write access to /etc, a connection to a.example:443?",
      "Let the session have the whole network, the socket /s, up to 9 open files, the variable KEY, inherited variables named A*?",
    ]);
  });

  test("an answer that can't be used is reported", async () => {
    const errors: unknown[] = [];
    const { server } = await session({ onQuestion: (question) => question.answer("approved_for_session") }, errors);
    await ask(server);
    server.tell("approval/unusable", { question_id: "q1", why: "not offered" });
    await settled();
    assert.ok(errors[0] instanceof UnusableAnswerError);
  });
});

test("a session that the server closes still says how its commands ended, and ends what is followed", async () => {
  const events: SessionEvent[] = [];
  const { server, session: opened } = await session({ onEvent: (event) => events.push(event) });
  server.handlers["command/attach"] = () => ({ state: "running", first_seq: 1, last_seq: 1 });
  const followed = await opened.follow("c1");
  const { command, end } = await started(server, opened);
  server.tell("session/closed", { why: "idle" });
  output(server, command, 1, "last words");
  end();
  const texts: string[] = [];
  for await (const chunk of command) texts.push(chunk.text);
  assert.deepEqual([texts, (await command.wait()).status], [["last words"], "exited"]);
  await assert.rejects(followed.wait(), SessionClosedError);
  assert.deepEqual(events, [{ type: "closed", why: "idle" }]);
});

test("listeners that fail are reported, and fail nothing else", async () => {
  const errors: unknown[] = [];
  const { server, client } = await session({ onEvent: (event) => assert.fail(event.type) }, errors);
  server.tell("session/notice", { text: "one" });
  server.handlers["session/list"] = () => ({ sessions: [] });
  await client.sessions();
  assert.match(String(errors[0]), /notice/);
});

test("a command that is followed is not followed twice", async () => {
  const { server, session: opened } = await session();
  server.handlers["command/attach"] = () => ({ state: "running", first_seq: 1, last_seq: 1 });
  const command = await opened.follow("c1", { afterSeq: 1 });
  await assert.rejects(opened.follow("c1"), /already/);
  output(server, command, 2, "more");
  server.tell("command/ended", { command_id: "c1", outcome: EXITED, last_seq: 2 });
  const texts: string[] = [];
  for await (const chunk of command) texts.push(chunk.text);
  assert.deepEqual([texts, (await command.wait()).lastSeq], [["more"], 2]);
});

test("the capability is not shown by accident", async () => {
  const { inspect } = await import("node:util");
  const { session: opened } = await session();
  assert.equal(opened.capability, "secret");
  assert.doesNotMatch(inspect(opened, { depth: 5, showHidden: true }) + JSON.stringify(opened), /secret/);
});
