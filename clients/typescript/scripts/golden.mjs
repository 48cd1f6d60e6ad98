// Writes `test/golden.ts`: each golden message of the repository as a typed literal, so that the compiler holds it
// against the generated types.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";

const FOLDERS = ["protocol/tests/golden/", "server/tests/golden/"];
const root = new URL("../../../", import.meta.url);

const messages = FOLDERS.map((folder) => new URL(folder, root))
  .filter((folder) => existsSync(folder))
  .flatMap((folder) => readdirSync(folder).flatMap((name) => list(new URL(`${name}/`, folder), name)));

function list(folder, name) {
  return readdirSync(folder).map((file) => ({ name, json: readFileSync(new URL(file, folder), "utf8").trim() }));
}

const literals = messages.map(({ name, json }, index) => `export const message${index}: stockade.${name} = ${json};\n`);
if (literals.length < 70) throw new Error(`only ${literals.length} golden messages were found`);
writeFileSync(new URL("../test/golden.ts", import.meta.url), `import type * as stockade from "@stockade/client";\n\n${literals.join("")}`);
