// What the compiler makes of the generated types. Most of it is tested by this file's being compiled.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { ApprovalSubject, DenyingRule, Outcome, ReviewDecision, SandboxPolicy, SessionOpenParams } from "@stockade/client";

/** A variant is told by its property, and nothing is left over. */
function summary(outcome: Outcome): string {
  if (outcome.exited) return `exit code ${outcome.exited.exit_code}`;
  if (outcome.denied) return `denied ${outcome.denied.execution.violations?.length ?? 0} times`;
  if (outcome.refused !== undefined) return outcome.refused.reason;
  if ("timed_out" in outcome) return `after ${outcome.timed_out.execution.duration_ms} ms`;
  if ("cancelled" in outcome) return outcome.cancelled.reason;
  return `signal ${outcome.signaled.signal}`;
}

function subjectOf(subject: ApprovalSubject): number {
  if (subject.command) return subject.command.command.length;
  if (subject.patch) return subject.patch.changes.length;
  if (subject.network) return subject.network.port;
  if (subject.write) return subject.write.paths.length;
  if (subject.permissions) return subject.permissions.permissions.files?.length ?? 0;
  if (subject.tool_call) return subject.tool_call.tool.length;
  return subject.elicitation.message.length;
}

function tagged(policy: SandboxPolicy): string[] {
  switch (policy.type) {
    case "workspace-write":
      return (policy.writable_roots ?? []).map(String);
    case "read-only":
    case "external-sandbox":
    case "danger-full-access":
      return [];
  }
}

function words(rule: DenyingRule): string {
  if (rule === "not_granted") return rule;
  if (rule.layer) return rule.layer.reason;
  if (rule.command) return rule.command.reason;
  return rule.network ? rule.network.host : rule.file.access;
}

// @ts-expect-error a typo is found
export const typo: SandboxPolicy = { type: "workspace-write", writeable_roots: [] };
// @ts-expect-error one variant at a time
export const both: Outcome = { refused: { by: "rule", reason: "" }, timed_out: { execution: null } };
// @ts-expect-error only words that exist
export const word: ReviewDecision = "perhaps";
// @ts-expect-error the wire's names are not those of the client's options
export const params: SessionOpenParams = { allowHosts: [] };

test("unions are narrowed by reading a property", () => {
  assert.equal(summary({ refused: { by: "rule", reason: "no" } }), "no");
  assert.equal(subjectOf({ network: { host: "h", port: 1, protocol: "tcp" } }), 1);
  assert.deepEqual(tagged({ type: "workspace-write", writable_roots: ["/a"] }), ["/a"]);
  assert.equal(words("not_granted"), "not_granted");
});

test("no name is numbered", () => {
  const types = readFileSync(new URL("../src/protocol.ts", import.meta.url), "utf8");
  assert.doesNotMatch(types, /^export \w+ \w*\d+\b/m);
});
