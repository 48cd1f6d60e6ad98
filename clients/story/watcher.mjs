// A second client of a session: it says what it sees, a JSON object a line, and answers what is asked.
//
// It is told on its standard input where to go: {"socket": …, "session_id": …, "capability": …}. When that is closed, it ends.
import { createInterface } from "node:readline";
import { Stockade } from "../typescript/dist/index.js";

const say = (event) => console.log(JSON.stringify(event));

const lines = createInterface({ input: process.stdin });
const { socket, session_id, capability } = JSON.parse((await lines[Symbol.asyncIterator]().next()).value);
const closed = new Promise((resolve) => lines.once("close", resolve));

const client = await Stockade.connect({ socket, name: "watcher" });
await client.attach(session_id, capability, {
  onQuestion(question) {
    say({ event: "question", text: question.text });
    return question.offers("approved_for_session") ? question.approveForSession() : question.approve();
  },
  onEvent({ type, ...event }) {
    say({ event: type, status: event.result?.status, ask: event.ask });
  },
});
say({ event: "attached" });
await closed;
await client.close();
