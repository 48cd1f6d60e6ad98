// The real thing: every test starts the real server and runs real commands in real sandboxes.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  ConnectionError,
  FailedError,
  InvalidParamsError,
  NotPermittedError,
  UnknownCommandError,
  type Question,
  type SessionEvent,
} from "@stockade/client";
import { Place, PROGRAM } from "./place.js";

function deferred() {
  let settle: () => void = () => {};
  const promise = new Promise<void>((resolve) => (settle = resolve));
  return { promise, resolve: settle };
}

describe("a command", { concurrency: 4 }, () => {
  test("runs in the workspace, and its output and exit code come back", async () => {
    await using place = new Place();
    const client = await place.connect();
    assert.equal(client.server.server.name, "stockade");
    await using session = await client.open();
    const result = await session.run(["sh", "-c", "pwd; echo ä > file; cat file; echo oops >&2; exit 3"]);
    assert.deepEqual([result.status, result.exitCode, result.ok], ["exited", 3, false]);
    assert.equal(result.stdout, `${place.workspace}\nä\n`);
    assert.equal(result.stderr, "oops\n");
    assert.equal(place.read(place.inside("file")), "ä\n");
    assert.equal(result.execution?.enforcement.layers.length !== 0, true);
  });

  test("is denied what is outside, without a question if there is nobody to ask", async () => {
    await using place = new Place();
    const session = await (await place.connect()).open();
    const result = await session.run(["sh", "-c", `echo x > ${place.beyond("file")}`]);
    assert.equal(result.status, "denied");
    assert.deepEqual(result.violations[0]?.target, { path: place.beyond("file") });
    assert.equal(existsSync(place.beyond("file")), false);
  });

  test("has an environment, a directory and a time of its own", async () => {
    await using place = new Place();
    const session = await (await place.connect()).open({ set: { GREETING: "hello" } });
    assert.equal((await session.run(["sh", "-c", "pwd; echo $GREETING"], { cwd: "/usr" })).stdout, "/usr\nhello\n");
    const late = await session.run(["sleep", "60"], { timeoutMs: 300 });
    assert.equal(late.status, "timed_out");
  });

  test("may have words and output that are not UTF-8", async () => {
    await using place = new Place();
    const session = await (await place.connect()).open();
    const bytes: Uint8Array[] = [];
    await session.run(["printf", "%s", Uint8Array.of(0x61, 0xff, 0x62)], { onOutput: (chunk) => void bytes.push(chunk.bytes) });
    assert.deepEqual(Buffer.concat(bytes), Buffer.of(0x61, 0xff, 0x62));
  });
});

describe("output", { concurrency: 4 }, () => {
  test("is streamed while the command runs, numbered without gaps", async () => {
    await using place = new Place();
    const session = await (await place.connect()).open();
    const command = session.start(["sh", "-c", "echo one; read line; echo $line >&2"], { stdin: "pipe" });
    const seen: Array<[number, string, string]> = [];
    for await (const { seq, stream, text } of command) {
      seen.push([seq, stream, text]);
      if (seq === 1) await command.write("two\n");
    }
    assert.deepEqual(seen, [
      [1, "stdout", "one\n"],
      [2, "stderr", "two\n"],
    ]);
    const result = await command.wait();
    assert.deepEqual([result.ok, result.lastSeq], [true, 2]);
  });

  test("of megabytes arrives whole", async () => {
    await using place = new Place();
    const session = await (await place.connect()).open();
    const command = session.start(["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"]);
    let [bytes, last] = [0, 0];
    for await (const chunk of command) {
      assert.equal(chunk.seq, last + 1);
      last = chunk.seq;
      bytes += chunk.bytes.length;
    }
    assert.equal(bytes, 3_000_000);
  });

  test("that is not read slows down its own command only", async () => {
    await using place = new Place();
    const client = await place.connect();
    const session = await client.open();
    const flood = session.start(["yes"]);
    const reader = flood[Symbol.asyncIterator]();
    await reader.next();
    for (let turn = 0; turn < 5; turn++) assert.equal((await session.run(["echo", "hi"])).stdout, "hi\n");
    await client.sessions();
    assert.equal(flood.running, true);
    assert.equal(await flood.cancel(), true);
    // What was under way is still there: no more than the window, and what the server keeps of a command. `yes` writes that in a millisecond.
    let bytes = 0;
    for (let next = await reader.next(); !next.done; next = await reader.next()) bytes += next.value.bytes.length;
    assert.ok(bytes < 2 * 1024 * 1024, `${bytes} bytes were sent ahead`);
    assert.equal((await flood.wait()).status, "cancelled");
  });
});

describe("a running command", { concurrency: 4 }, () => {
  test("can be cancelled", async () => {
    await using place = new Place();
    const session = await (await place.connect()).open();
    const command = session.start(["sh", "-c", "echo up; sleep 60 & wait"]);
    for await (const chunk of command) if (chunk.text === "up\n") assert.equal(await command.cancel(), true);
    assert.equal((await command.wait()).status, "cancelled");
    assert.equal(await command.cancel().catch((error: unknown) => error instanceof UnknownCommandError && false), false);
  });

  test("is cancelled by its signal", async () => {
    await using place = new Place();
    const session = await (await place.connect()).open();
    const started = Date.now();
    await assert.rejects(session.run(["sleep", "60"], { signal: AbortSignal.timeout(300) }), { name: "TimeoutError" });
    assert.ok(Date.now() - started < 30_000);
  });

  test("is cancelled however early its signal comes", async () => {
    await using place = new Place();
    const session = await (await place.connect()).open();
    const runs = Array.from({ length: 20 }, () => {
      const controller = new AbortController();
      const run = session.run(["sleep", "60"], { signal: controller.signal });
      controller.abort(new Error("at once"));
      return assert.rejects(run, /at once/);
    });
    await Promise.all(runs);
  });

  test("can be sent signals", async () => {
    await using place = new Place();
    const session = await (await place.connect()).open();
    const command = session.start(["sh", "-c", "trap 'echo got it; exit 7' USR1; echo up; while :; do sleep 0.05; done"]);
    const texts: string[] = [];
    for await (const chunk of command) {
      texts.push(chunk.text);
      if (chunk.text === "up\n") await command.signal("usr1");
    }
    assert.deepEqual([texts.join(""), (await command.wait()).exitCode], ["up\ngot it\n", 7]);
  });

  test("reads what is written, until its input is closed", async () => {
    await using place = new Place();
    const session = await (await place.connect()).open();
    assert.equal((await session.run(["wc", "-c"], { input: "x".repeat(700_000) })).stdout.trim(), "700000");
    const command = session.start(["cat"], { stdin: "pipe" });
    await command.write("a");
    await command.end("b");
    await assert.rejects(command.write("c"), FailedError);
    let text = "";
    for await (const chunk of command) text += chunk.text;
    assert.equal(text, "ab");
  });

  test("may have a terminal", async () => {
    await using place = new Place();
    const session = await (await place.connect({ terminal: true })).open();
    const script = "test -t 0 && test -t 1 && stty size; read line; echo \"got $line\"; stty size";
    const command = session.start(["sh", "-c", script], { terminal: { rows: 24, columns: 80 } });
    let text = "";
    let answered = false;
    for await (const chunk of command) {
      text += chunk.text;
      if (!answered && text.includes("24 80")) {
        answered = true;
        await command.resize({ rows: 10, columns: 40 });
        await command.write("hello\n");
      }
    }
    assert.match(text, /24 80\r\n[^]*got hello\r\n10 40\r\n/);
  });
});

describe("questions", { concurrency: 4 }, () => {
  test("are asked after a denial, and a yes for the session is remembered", async () => {
    await using place = new Place();
    const asked: Question[] = [];
    const session = await (await place.connect()).open({
      onQuestion: (question) => {
        asked.push(question);
        return question.offers("approved_for_session") ? question.approveForSession() : question.approve();
      },
    });
    const line = ["sh", "-c", `echo x >> ${place.beyond("file")}`] as const;
    assert.equal((await session.run(line)).ok, true);
    assert.equal(asked.length, 1);
    assert.ok(asked[0]?.text.includes(place.beyond("file")));
    assert.equal(asked[0]?.subject.write?.paths.length, 1);
    assert.equal((await session.run(line)).ok, true);
    assert.equal(asked.length, 1);
    assert.equal(place.read(place.beyond("file")), "x\nx\n");

    const remembered = await session.remembered();
    assert.equal(remembered.length, 1);
    assert.equal(await session.forget(remembered[0]?.key), 1);
    assert.deepEqual(await session.remembered(), []);
    await session.run(line);
    assert.equal(asked.length, 2);
  });

  test("that are denied leave the command denied", async () => {
    await using place = new Place();
    const session = await (await place.connect()).open({ onQuestion: async (question) => question.deny("not there") });
    const result = await session.run(["sh", "-c", `echo x > ${place.beyond("file")}`]);
    assert.notEqual(result.ok, true);
    assert.equal(existsSync(place.beyond("file")), false);
  });

  test("come before the command where the policy says so, and cancelling takes them back", async () => {
    await using place = new Place();
    const controller = new AbortController();
    const gone = deferred();
    const session = await (await place.connect()).open({
      ask: "untrusted",
      onQuestion: async (question) => {
        question.signal.addEventListener("abort", () => gone.resolve());
        controller.abort(new Error("stop"));
        await gone.promise;
      },
    });
    await assert.rejects(session.run(["sh", "-c", "rm -rf x"], { signal: controller.signal }), /stop/);
    await gone.promise;
    assert.deepEqual(await session.questions(), []);
  });

  test("are refused once the policy is changed to never", async () => {
    await using place = new Place();
    const asked: Question[] = [];
    const session = await (await place.connect()).open({ ask: "untrusted", onQuestion: (question) => (asked.push(question), question.approve()) });
    assert.equal((await session.run(["touch", "a"])).ok, true);
    const state = await session.update({ ask: "never" });
    assert.deepEqual([state.ask, session.state.ask, asked.length], ["never", "never", 1]);
    const result = await session.run(["sh", "-c", `echo x > ${place.beyond("file")}`]);
    assert.equal(result.ok, false);
    assert.equal(asked.length, 1);
  });
});

describe("besides commands", { concurrency: 4 }, () => {
  test("patches are applied inside and asked for outside", async () => {
    await using place = new Place();
    const session = await (await place.connect()).open({ onQuestion: (question) => question.deny("no") });
    const inside = await session.patch(`*** Begin Patch\n*** Add File: hello.txt\n+hello\n*** End Patch\n`);
    assert.deepEqual(inside.applied?.paths, [place.inside("hello.txt")]);
    assert.equal(place.read(place.inside("hello.txt")), "hello\n");
    const outside = await session.patch([{ add: { path: place.beyond("file"), content: "x" } }]);
    assert.equal(outside.refused?.by, "reviewer");
    assert.equal(existsSync(place.beyond("file")), false);
  });

  test("tool calls, permissions and forms are asked for", async () => {
    await using place = new Place();
    const session = await (await place.connect()).open({
      ask: "on-request",
      onQuestion: (question) => {
        if (question.subject.elicitation) return question.accept({ name: "Ada" });
        return question.offers("approved_for_session") ? question.approveForSession() : question.approve();
      },
    });
    const review = await session.reviewTool({ server: "files", tool: "delete", arguments: { path: "/x" } }, { requiresApproval: true });
    assert.deepEqual(review, { approved: {} });
    const granted = await session.requestPermissions({ files: [{ target: { path: place.outside }, access: "write" }] }, "to write there");
    assert.equal(granted.granted?.scope, "session");
    assert.equal((await session.run(["touch", place.beyond("file")])).ok, true);
    const form = await session.elicit("files", "Who?", { type: "object", properties: { name: { type: "string" } }, required: ["name"] });
    assert.deepEqual(form, { accept: { content: { name: "Ada" } } });
  });

  test("a command can be explained, rules asked and the trail read", async () => {
    await using place = new Place();
    const client = await place.connect();
    const session = await client.open({ name: "mine" });
    await session.run(["true"]);
    assert.ok(await session.explain(["rm", "-rf", "/"]));
    assert.ok(await session.checkRules(["ls"]));
    assert.ok(await client.checkRules(["ls"]));
    const [listed] = await client.sessions();
    assert.deepEqual([listed?.session_id, listed?.name, listed?.workspace], [session.id, "mine", [place.workspace]]);
    const events: string[] = [];
    for await (const record of session.audit()) events.push(...Object.keys(record.event));
    assert.ok(events.includes("requested") && events.includes("ended"), events.join());
    assert.equal((await client.verifyAudit()).whole, true);
    assert.equal(await session.close(), 0);
    assert.deepEqual(await client.sessions(), []);
  });

  test("mistakes are errors of their kind", async () => {
    await using place = new Place();
    const client = await place.connect();
    const session = await client.open();
    await assert.rejects(client.open({ sandbox: "none" as "read-only" }), InvalidParamsError);
    await assert.rejects(session.run([]), InvalidParamsError);
    await assert.rejects(session.follow("nothing"), UnknownCommandError);
    await assert.rejects(session.patch("nonsense"), (error: Error) => error instanceof FailedError || error instanceof InvalidParamsError);
  });
});

describe("clients of one server", { concurrency: 4 }, () => {
  test("see each other's commands, and the first answer counts", async () => {
    await using place = new Place();
    const [first, second] = [await place.join({ name: "first" }), await place.join({ name: "second" })];
    const gone = deferred();
    const events: SessionEvent[] = [];
    const session = await first.open({
      workspace: place.workspace,
      environment: place.env,
      onQuestion: async (question) => {
        question.signal.addEventListener("abort", () => gone.resolve());
        await gone.promise;
      },
      onEvent: (event) => events.push(event),
    });
    const seen: SessionEvent[] = [];
    await second.attach(session.id, session.capability, { onQuestion: (question) => question.approve(), onEvent: (event) => seen.push(event) });
    assert.equal((await session.run(["sh", "-c", `echo x > ${place.beyond("file")}`])).ok, true);
    await gone.promise;
    const resolved = events.find((event) => event.type === "question_resolved");
    assert.equal(resolved?.resolved.answered_by, "second");
    while (!seen.some(({ type }) => type === "command_ended")) await sleep(10);
    assert.deepEqual(seen.map(({ type }) => type), ["command_started", "command_ended"]);
  });

  test("need the session's capability", async () => {
    await using place = new Place();
    const session = await (await place.join()).open({ workspace: place.workspace });
    const stranger = await place.join();
    await assert.rejects(stranger.attach(session.id, "0".repeat(64)), NotPermittedError);
    await assert.rejects(stranger.attach(session.id, "guess"), (error: Error) => error instanceof NotPermittedError || error instanceof InvalidParamsError);
  });

  test("can go on where another one stopped", async () => {
    await using place = new Place();
    const first = await place.join();
    const session = await first.open({ workspace: place.workspace });
    const command = session.start(["sh", "-c", "for i in 1 2 3 4 5 6; do echo $i; sleep 0.2; done"]);
    const read: string[] = [];
    let last = 0;
    for await (const chunk of command) {
      read.push(chunk.text);
      last = chunk.seq;
      if (last === 2) break;
    }
    await first.close();
    const again = await (await place.join()).attach(session.id, session.capability);
    const followed = await again.follow(command.id, { afterSeq: last });
    for await (const chunk of followed) {
      assert.equal(chunk.seq, ++last);
      read.push(chunk.text);
    }
    assert.equal(read.join(""), "1\n2\n3\n4\n5\n6\n");
    assert.equal((await followed.wait()).ok, true);
  });

  test("are told when the server dies", async () => {
    await using place = new Place();
    const server = await place.serve();
    const client = await place.join();
    const session = await client.open({ workspace: place.workspace });
    const run = session.run(["sleep", "60"]);
    const command = session.start(["sh", "-c", "echo up; sleep 60"]);
    for await (const chunk of command) if (chunk.text === "up\n") break;
    server.kill("SIGKILL");
    await assert.rejects(run, ConnectionError);
    await assert.rejects(command.wait(), ConnectionError);
    await assert.rejects(client.sessions(), ConnectionError);
  });
});

test("a server of one's own that dies says how", async () => {
  await using place = new Place();
  const pid = place.inside("pid");
  const client = await place.connect({ command: ["sh", "-c", `echo $$ > ${pid}; exec "$0" serve`, PROGRAM] });
  const session = await client.open();
  const run = session.run(["sleep", "60"]);
  await sleep(200);
  process.kill(Number(place.read(pid)), "SIGKILL");
  await assert.rejects(run, (error: Error) => error instanceof ConnectionError && /SIGKILL/.test(error.message));
});

test("closing ends a server of one's own, and its commands", async () => {
  await using place = new Place();
  const client = await place.connect();
  const session = await client.open();
  const command = session.start(["sh", "-c", "echo up; sleep 5; touch late"]);
  for await (const chunk of command) if (chunk.text === "up\n") break;
  const started = Date.now();
  await client.close();
  assert.ok(Date.now() - started < 4500);
  assert.equal((await command.wait()).status, "cancelled");
  assert.equal(existsSync(place.inside("late")), false);
});
