/**
 * Transports to a server: a child process, or a Unix socket.
 *
 * @module
 */
import { spawn, type ChildProcess } from "node:child_process";
import { connect as connectSocket } from "node:net";
import { homedir } from "node:os";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { ConnectionError } from "./errors.js";

/** A transport to a server. */
export interface Transport {
  /** The stream from the server. */
  readonly input: Readable;
  /** The stream to the server. */
  readonly output: Writable;
  /** Whether the server ends with this connection, and may be told to shut down. */
  readonly ownsServer: boolean;
  /** Ends the connection, and the server if it is this connection's own. */
  end(): Promise<void>;
  /** Why the connection has ended, once it has. */
  whyEnded(): Promise<string>;
}

const STDERR_KEPT = 8192;
/** How long a server that was told to end may take before it is killed. */
const GRACE_MS = 5000;

/** Starts a server and connects to its standard input and output. */
export async function spawnServer(
  command: readonly string[],
  options: { env?: NodeJS.ProcessEnv; cwd?: string },
): Promise<Transport> {
  const [program, ...args] = command;
  if (program === undefined) throw new TypeError("`command` needs a program");
  // A session of its own, so that Ctrl-C ends this program and leaves it time to end the server.
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"], detached: true, windowsHide: true, ...options });
  await new Promise<void>((resolve, reject) => {
    child.once("spawn", resolve);
    child.once("error", (cause) => {
      const how = "install `stockade`, or pass `command`";
      reject(new ConnectionError(`can't start \`${program}\`: ${cause.message}; ${how}`, { cause }));
    });
  });
  return new ServerProcess(program, child);
}

class ServerProcess implements Transport {
  readonly input: Readable;
  readonly output: Writable;
  readonly ownsServer = true;
  readonly #program: string;
  readonly #child: ChildProcess;
  readonly #closed: Promise<void>;
  #stderr = "";

  constructor(program: string, child: ChildProcess) {
    const { stdin, stdout, stderr } = child;
    if (stdin === null || stdout === null || stderr === null) throw new ConnectionError(`\`${program}\` has no pipes`);
    this.#program = program;
    this.#child = child;
    this.input = stdout;
    this.output = stdin;
    this.#closed = new Promise((resolve) => child.once("close", () => resolve()));
    child.on("error", () => {});
    stderr.setEncoding("utf8");
    stderr.on("data", (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-STDERR_KEPT);
    });
  }

  async end(): Promise<void> {
    this.output.end();
    // Remaining output is not awaited.
    this.input.resume();
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      if (await within(this.#closed, GRACE_MS)) return;
      this.#child.kill(signal);
    }
    await within(this.#closed, GRACE_MS);
  }

  async whyEnded(): Promise<string> {
    await within(this.#closed, 1000);
    const { exitCode, signalCode } = this.#child;
    const how = signalCode !== null ? `was ended by ${signalCode}` : exitCode !== null ? `ended with exit code ${exitCode}` : "closed its output";
    const said = this.#stderr.trim();
    return `\`${this.#program}\` ${how}${said === "" ? "" : `: ${said}`}`;
  }
}

/** Connects to a server that is running already. */
export async function connectToSocket(path: string): Promise<Transport> {
  const socket = connectSocket({ path });
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", () => {
      socket.removeAllListeners("error");
      resolve();
    });
    socket.once("error", (cause) => {
      const how = "start one with `stockade serve --socket`, or connect without `socket`";
      reject(new ConnectionError(`no server listens at ${path}: ${cause.message}; ${how}`, { cause }));
    });
  });
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  return {
    input: socket,
    output: socket,
    ownsServer: false,
    async end() {
      socket.end();
      socket.resume();
      if (!(await within(closed, 1000))) socket.destroy();
    },
    async whyEnded() {
      return `the server at ${path} closed the connection`;
    },
  };
}

/** The default path of `stockade serve --socket`. */
export function defaultSocket(env: NodeJS.ProcessEnv = process.env): string {
  const runtime = env["XDG_RUNTIME_DIR"];
  if (runtime !== undefined && runtime !== "") return join(runtime, "stockade", "serve.sock");
  const state = env["XDG_STATE_HOME"];
  const base = state !== undefined && state !== "" ? state : join(env["HOME"] ?? homedir(), ".local", "state");
  return join(base, "stockade", "run", "serve.sock");
}

/** Whether it is done in time. */
export async function within(done: Promise<void>, milliseconds: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), milliseconds);
  });
  try {
    return await Promise.race([done.then(() => true as const), late]);
  } finally {
    clearTimeout(timer);
  }
}
