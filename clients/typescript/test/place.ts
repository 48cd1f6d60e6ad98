// A place for a test: a workspace, a directory beside it that commands may not write, and a home of its own, so that
// neither this user's settings nor the trail of this machine have a part in it.
import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Stockade, type ConnectOptions } from "@stockade/client";

export const PROGRAM = resolve(process.env["STOCKADE_PROGRAM"] ?? "../../target/debug/stockade");

export class Place implements AsyncDisposable {
  // Not below /tmp, which commands have one of their own of.
  readonly root = mkdtempSync("/var/tmp/stockade-client-");
  readonly workspace = this.#directory("workspace");
  readonly outside = this.#directory("outside");
  readonly socket = join(this.#directory("run"), "stockade", "serve.sock");
  readonly env: NodeJS.ProcessEnv = {
    PATH: process.env["PATH"],
    HOME: this.#directory("home"),
    XDG_STATE_HOME: this.#directory("state"),
    XDG_CONFIG_HOME: this.#directory("config"),
    XDG_RUNTIME_DIR: join(this.root, "run"),
  };
  readonly #clients: Stockade[] = [];
  #server: ChildProcess | undefined;

  /** A client with a server of its own. */
  connect(options: ConnectOptions = {}): Promise<Stockade> {
    return this.#kept(Stockade.connect({ command: [PROGRAM, "serve"], env: this.env, cwd: this.workspace, ...options }));
  }

  /** A client of the server that all share, which is started for the first. */
  async join(options: ConnectOptions = {}): Promise<Stockade> {
    await this.serve();
    return this.#kept(Stockade.connect({ socket: this.socket, ...options }));
  }

  /** Starts the server that all share. */
  async serve(): Promise<ChildProcess> {
    if (this.#server !== undefined) return this.#server;
    const server = spawn(PROGRAM, ["serve", "--socket"], { env: this.env, cwd: this.root, stdio: ["ignore", "ignore", "inherit"] });
    this.#server = server;
    for (let turn = 0; !existsSync(this.socket); turn++) {
      if (server.exitCode !== null || turn > 1000) throw new Error(`no server at ${this.socket}`);
      await sleep(10);
    }
    return server;
  }

  inside(name: string): string {
    return join(this.workspace, name);
  }

  beyond(name: string): string {
    return join(this.outside, name);
  }

  read(path: string): string {
    return readFileSync(path, "utf8");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.close()));
    const server = this.#server;
    if (server !== undefined && server.exitCode === null && server.signalCode === null) {
      const gone = new Promise((resolve) => server.once("exit", resolve));
      server.kill("SIGTERM");
      await gone;
    }
    rmSync(this.root, { recursive: true, force: true });
  }

  async #kept(connecting: Promise<Stockade>): Promise<Stockade> {
    const client = await connecting;
    this.#clients.push(client);
    return client;
  }

  #directory(name: string): string {
    const path = join(this.root, name);
    mkdirSync(path, { mode: 0o700 });
    return path;
  }
}
