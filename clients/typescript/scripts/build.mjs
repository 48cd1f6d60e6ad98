// Compiles `src/` to `dist/`, which is committed: a package that is installed from a directory gets no development
// dependencies, and newer versions of npm do not run its scripts, so there is nothing to compile it with.
//
//   node scripts/build.mjs           writes `dist/`
//   node scripts/build.mjs --check   fails if `dist/` is not what `src/` compiles to
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const dist = join(root, "dist");

function compile(target) {
  execFileSync(join(root, "node_modules/.bin/tsc"), ["-p", root, "--outDir", target], { stdio: "inherit" });
  // Nothing but types: the generator can write both without a compiler.
  copyFileSync(join(root, "src/protocol.ts"), join(target, "protocol.d.ts"));
}

function contents(directory) {
  return Object.fromEntries(readdirSync(directory).map((name) => [name, readFileSync(join(directory, name), "utf8")]));
}

function check() {
  const fresh = mkdtempSync(join(tmpdir(), "stockade-client-"));
  try {
    compile(fresh);
    return JSON.stringify(contents(fresh)) === JSON.stringify(contents(dist));
  } finally {
    rmSync(fresh, { recursive: true });
  }
}

if (!process.argv.includes("--check")) {
  rmSync(dist, { recursive: true, force: true });
  compile(dist);
} else if (!check()) {
  console.error("dist/ is not what src/ compiles to: run `npm run build`");
  process.exit(1);
}
