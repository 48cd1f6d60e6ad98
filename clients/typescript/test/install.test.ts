// The package as it is installed, and the README's example as it is printed.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { Place, PROGRAM } from "./place.js";

const PACKAGE = resolve(".");

/** A project with the package in it, and a `stockade` on its path. */
function project(place: Place, ...how: string[]): { directory: string; env: NodeJS.ProcessEnv } {
  const directory = place.inside("project");
  mkdirSync(directory);
  writeFileSync(join(directory, "package.json"), '{ "name": "project", "version": "1.0.0", "type": "module" }');
  // The way that works without a network and with scripts switched off works everywhere.
  const quiet = ["--offline", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  execFileSync("npm", ["install", ...quiet, ...how, PACKAGE], { cwd: directory, stdio: "inherit" });
  mkdirSync(place.inside("bin"));
  symlinkSync(PROGRAM, place.inside("bin/stockade"));
  return { directory, env: { ...place.env, PATH: `${place.inside("bin")}:${place.env["PATH"]}` } };
}

function example(): string {
  const found = /```ts\n(import [^]*?)```/.exec(readFileSync("README.md", "utf8"))?.[1];
  assert.ok(found !== undefined, "the README has no example");
  return found;
}

test("the README's example works in a project that installed the package", async () => {
  await using place = new Place();
  const { directory, env } = project(place);
  writeFileSync(join(directory, "tool.ts"), example());
  writeFileSync(
    join(directory, "chat.ts"),
    `export const asked: string[] = [];
export const chat = { async ask(text: string): Promise<string> { asked.push(text); return asked.length === 1 ? "always" : "no"; } };\n`,
  );
  writeFileSync(
    join(directory, "main.ts"),
    `import { asked } from "./chat.js";
import { runCommand } from "./tool.js";
const [outside] = process.argv.slice(2);
console.log(await runCommand(["echo", "hi"]));
console.log(await runCommand(["sh", "-c", \`echo x > \${outside}/one\`]));
console.log(await runCommand(["sh", "-c", \`echo x > \${outside}/one\`]));
console.log(await runCommand(["sh", "-c", \`echo x > \${outside}-two/file\`]));
console.log(asked.length);
process.exit();\n`,
  );
  const options = ["--strict", "--exactOptionalPropertyTypes", "--target", "es2022", "--module", "nodenext", "--types", "node"];
  const roots = ["--typeRoots", join(PACKAGE, "node_modules/@types")];
  execFileSync(join(PACKAGE, "node_modules/.bin/tsc"), [...options, ...roots, "main.ts"], { cwd: directory, stdio: "inherit" });
  // The yes for the session covers its directory; what is denied lies elsewhere.
  mkdirSync(`${place.outside}-two`);
  const printed = execFileSync("node", ["main.js", place.outside], { cwd: directory, env, encoding: "utf8" });
  assert.match(printed, /^exited 0\nhi\n\nexited 0\n\nexited 0\n\n(denied|the user said no)[^]*\n2\n$/);
});

test("a copy of the package works as well, and holds nothing but what is needed", async () => {
  await using place = new Place();
  const { directory, env } = project(place, "--install-links");
  const script = `import { Stockade } from "@stockade/client";
const client = await Stockade.connect();
const session = await client.open();
console.log((await session.run(["echo", "hi"])).stdout);
await client.close();`;
  assert.equal(execFileSync("node", ["--input-type=module", "-e", script], { cwd: directory, env, encoding: "utf8" }), "hi\n\n");
  const files = JSON.parse(execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { encoding: "utf8" }));
  const names: string[] = (Array.isArray(files) ? files[0] : Object.values(files)[0]).files.map(({ path }: { path: string }) => path);
  assert.deepEqual(names.filter((name) => !name.startsWith("dist/")).sort(), ["README.md", "package.json"]);
});
