// A server that says exactly what a test wants it to say.
import { PassThrough } from "node:stream";
import { Stockade, type ConnectOptions, type Transport } from "@stockade/client";

export interface Message {
  jsonrpc: string;
  id?: number | string | null;
  method?: string;
  params?: Record<string, any>;
  result?: unknown;
  error?: { code: number; message: string };
}

type Handler = (params: Record<string, any>, message: Message) => unknown;

export const LIMITS = { frame_bytes: 4096 };

export const STATE = {
  session_id: "s1",
  cwd: "/w",
  ask: "on-failure",
  sandbox: { type: "read-only" },
  permissions: {},
  notices: [],
};

export class FakeServer {
  /** Everything that the client sent, in order. */
  readonly received: Message[] = [];
  /** Answers by method; a method without one is not answered. */
  readonly handlers: Record<string, Handler> = {
    initialize: () => ({ protocol_version: 1, server: { name: "fake", version: "0" }, methods: [], limits: LIMITS }),
    "session/open": () => ({ ...STATE, capability: "secret" }),
    "session/attach": () => STATE,
    shutdown: () => ({}),
  };
  readonly #toClient = new PassThrough();
  readonly #fromClient = new PassThrough();
  #waiting: Array<() => void> = [];
  #rest = "";
  transport: Transport = {
    input: this.#toClient,
    output: this.#fromClient,
    ownsServer: true,
    end: async () => void this.#fromClient.end(),
    whyEnded: async () => "the fake server has gone",
  };

  constructor() {
    this.#fromClient.setEncoding("utf8");
    this.#fromClient.on("data", (text: string) => {
      const lines = (this.#rest + text).split("\n");
      this.#rest = lines.pop() ?? "";
      for (const line of lines) this.#take(JSON.parse(line) as Message);
    });
  }

  connect(options: ConnectOptions = {}): Promise<Stockade> {
    return Stockade.connect({ transport: this.transport, ...options });
  }

  send(message: object): void {
    this.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  tell(method: string, params: object): void {
    this.send({ method, params: { session_id: "s1", ...params } });
  }

  write(bytes: string | Uint8Array): void {
    this.#toClient.write(bytes);
  }

  /** Goes away without a word. */
  vanish(): void {
    this.#toClient.end();
  }

  /** The messages of a method, once there are that many. */
  async sent(method: string, count = 1): Promise<Message[]> {
    for (;;) {
      const found = this.received.filter((message) => message.method === method);
      if (found.length >= count) return found;
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  /** The answer to a request of this server. */
  async answer(id: string): Promise<Message> {
    for (;;) {
      const found = this.received.find((message) => message.method === undefined && message.id === id);
      if (found !== undefined) return found;
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  #take(message: Message): void {
    this.received.push(message);
    const handler = message.method === undefined ? undefined : this.handlers[message.method];
    if (handler !== undefined && message.id !== undefined) {
      try {
        this.send({ id: message.id, result: handler(message.params ?? {}, message) });
      } catch (error) {
        this.send({ id: message.id, error });
      }
    }
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const wake of waiting) wake();
  }
}

export const EXITED = {
  exited: {
    exit_code: 0,
    execution: { stdout: { head: "" }, stderr: { head: "" }, duration_ms: 1, enforcement: { engine: "none", layers: [] } },
  },
};

/** Lets everything that is under way happen. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
}
