// Tests the package: that what is generated and built is up to date, its transport against a scripted server, and
// everything against the real one, which `STOCKADE_PROGRAM` names (`target/debug/stockade` if it is not set).
//
//   node scripts/test.mjs [NAME…]   all tests, or those in `test/NAME.test.ts`
import { execFileSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

function run(program, ...args) {
  try {
    execFileSync(program, args, { cwd: root, stdio: "inherit" });
  } catch (error) {
    process.exit(error.status ?? 1);
  }
}

run("node", "scripts/generate.mjs", "--check");
run("node", "scripts/build.mjs", "--check");
run("node", "scripts/golden.mjs");
rmSync(join(root, "build"), { recursive: true, force: true });
run("node_modules/.bin/tsc", "-p", "tsconfig.test.json");
const names = process.argv.slice(2);
const tests = readdirSync(join(root, "build")).filter((file) => file.endsWith(".test.js"));
const chosen = tests.filter((file) => names.length === 0 || names.includes(file.replace(".test.js", "")));
run("node", "--test", "--test-reporter=spec", ...chosen.map((file) => join("build", file)));
