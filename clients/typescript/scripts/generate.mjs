// Writes `src/protocol.ts`, and the same to `dist/`: the types of the wire, from the JSON schemas in the repository's
// `schemas/`. It needs nothing but Node.
//
//   node scripts/generate.mjs           writes the files
//   node scripts/generate.mjs --check   fails if they are not what the schemas say
//
// The generators on npm number a name that they meet twice (`Denied1`) and make unions that a compiler can't
// narrow by reading a property. This one takes every name from the schemas and refuses two meanings for a name.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const SCHEMAS = new URL("../../../schemas/", import.meta.url);
const TARGETS = ["../src/protocol.ts", "../dist/protocol.d.ts"].map((path) => new URL(path, import.meta.url));
const OPENRPC = "openrpc.json";
/** Documents that are no message: the settings file, and what is described elsewhere. */
const LEFT_OUT = new Set(["Config.json", "PermissionProfile.json", OPENRPC]);

const HEAD = `// Generated from \`schemas/\` by \`scripts/generate.mjs\`. Changes go there.

/** Properties that other variants of a union have: reading one of them tells the variants apart. */
export type Without<Names extends string> = { [name in Names]?: never };
`;

const types = new Map();

function define(name, schema) {
  const text = JSON.stringify(schema);
  const known = types.get(name);
  if (known !== undefined && known.text !== text) throw new Error(`two schemas are called ${name}`);
  types.set(name, { schema, text });
}

/** Takes a document apart into its definitions and itself. */
function read(file) {
  const { $schema, $defs = {}, title, ...schema } = JSON.parse(readFileSync(new URL(file, SCHEMAS), "utf8"));
  if ($schema === undefined || title === undefined) return;
  for (const [name, definition] of Object.entries($defs)) define(name, definition);
  // A document that lists others is no type of its own.
  const lists = schema.anyOf?.every((part) => Object.keys($defs).includes(nameOf(part.$ref)));
  if (!lists || types.has(title)) define(title, schema);
}

function nameOf(reference) {
  return reference?.replace(/^#\/(\$defs|components\/schemas)\//, "");
}

function comment(text, indent) {
  if (text === undefined) return "";
  const plain = text.replace(/\[(`[^`]+`)\]\([^)]*\)/g, "$1").replaceAll("*/", "*\\/");
  const lines = plain.split("\n");
  if (lines.length === 1) return `${indent}/** ${lines[0]} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}`.trimEnd()).join("\n")}\n${indent} */\n`;
}

/** The type that a schema describes, as an expression. */
function expression(schema, indent) {
  if (schema === true) return "unknown";
  if (schema.$ref !== undefined) return nameOf(schema.$ref);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const parts = schema.oneOf ?? schema.anyOf;
  if (parts !== undefined) return [...new Set(parts.map((part) => expression(part, indent)))].join(" | ");
  if (schema.allOf?.length === 1) return expression(schema.allOf[0], indent);
  if (Array.isArray(schema.type)) return schema.type.map((type) => expression({ ...schema, type }, indent)).join(" | ");
  switch (schema.type) {
    case "string":
      return "string";
    case "integer":
    case "number":
      return "number";
    case "boolean":
      return "boolean";
    case "null":
      return "null";
    case "array":
      return list(schema, indent);
    case "object":
      return schema.properties === undefined ? dictionary(schema, indent) : members(schema, indent);
    case undefined:
      return "unknown";
    default:
      throw new Error(`no type for ${JSON.stringify(schema)}`);
  }
}

function list(schema, indent) {
  const item = expression(schema.items ?? true, indent);
  return item.includes(" ") ? `Array<${item}>` : `${item}[]`;
}

function dictionary(schema, indent) {
  const values = Object.values(schema.patternProperties ?? {});
  if (typeof schema.additionalProperties === "object") values.push(schema.additionalProperties);
  const named = values.length === 0 && schema.additionalProperties === false;
  return named ? "Record<string, never>" : `Record<string, ${values.map((value) => expression(value, indent)).join(" | ") || "unknown"}>`;
}

function members(schema, indent) {
  const inner = `${indent}  `;
  const lines = Object.entries(schema.properties).map(([name, property]) => {
    const optional = schema.required?.includes(name) ? "" : "?";
    return `${comment(property.description, inner)}${inner}${name}${optional}: ${expression(property, inner)};\n`;
  });
  return lines.length === 0 ? "Record<string, never>" : `{\n${lines.join("")}${indent}}`;
}

/** Variants with a name of their own become types; the union is of those. */
function union(name, schema) {
  const parts = (schema.oneOf ?? schema.anyOf).flatMap((part) => part.oneOf ?? [part]);
  const named = parts.filter((part) => part.title !== undefined);
  const tags = named.filter((part) => part.properties !== undefined).map((part) => Object.keys(part.properties));
  const exclusive = tags.every((names) => names.length === 1);
  const variants = named.map((part) => {
    return declaration(part.title, part, exclusive ? tags.flat().filter((tag) => !(tag in (part.properties ?? {}))) : []);
  });
  const words = parts.filter((part) => part.const !== undefined && part.description !== undefined);
  const about = [schema.description, ...words.map((part) => `- \`${part.const}\`: ${part.description}`)];
  const members = parts.map((part) => part.title ?? expression(part, ""));
  const joined = members.length > 3 ? `\n  | ${members.join("\n  | ")}` : ` ${members.join(" | ")}`;
  return `${comment(about.join(words.length > 0 ? "\n" : ""), "")}export type ${name} =${joined};\n${variants.map((variant) => `\n${variant}`).join("")}`;
}

/** A type by its name; `others` are the properties that only the other variants of its union have. */
function declaration(name, schema, others = []) {
  if (schema.type === "object" && schema.properties !== undefined) {
    const body = members(schema, "");
    if (!body.startsWith("{")) return `${comment(schema.description, "")}export type ${name} = ${body};\n`;
    const without = others.length === 0 ? "" : ` extends Without<${others.map((other) => JSON.stringify(other)).join(" | ")}>`;
    return `${comment(schema.description, "")}export interface ${name}${without} ${body}\n`;
  }
  if (schema.oneOf !== undefined || schema.anyOf !== undefined) return union(name, schema);
  return `${comment(schema.description, "")}export type ${name} = ${expression(schema, "")};\n`;
}

/** The tables of methods, from the OpenRPC document. */
function tables() {
  const { methods } = JSON.parse(readFileSync(new URL(OPENRPC, SCHEMAS), "utf8"));
  const params = (method) => nameOf(method["x-params"].$ref);
  const result = (method) => nameOf(method.result.schema.$ref);
  const call = (method) => `{ params: ${params(method)}; result: ${result(method)} }`;
  const table = (name, about, direction, answered, type) => {
    const rows = methods.filter((method) => method["x-direction"] === direction && (method.result !== undefined) === answered);
    const lines = rows.map((method) => `${comment(method.summary, "  ")}  ${JSON.stringify(method.name)}: ${type(method)};\n`);
    return `/** ${about} */\nexport interface ${name} {\n${lines.join("")}}\n`;
  };
  return [
    table("Requests", "What a client asks the server for.", "client-to-server", true, call),
    table("ClientNotifications", "What a client tells the server.", "client-to-server", false, params),
    table("ServerRequests", "What the server asks a client for.", "server-to-client", true, call),
    table("Notifications", "What the server tells a client.", "server-to-client", false, params),
  ];
}

function generate() {
  for (const file of readdirSync(SCHEMAS).filter((file) => file.endsWith(".json") && !LEFT_OUT.has(file)).sort()) read(file);
  const names = [...types.keys()].sort();
  const body = [...tables(), ...names.map((name) => declaration(name, types.get(name).schema))];
  const declared = body.join("").match(/^export \w+ \w+/gm).map((line) => line.split(" ")[2]);
  const twice = declared.find((name, index) => declared.indexOf(name) !== index);
  if (twice !== undefined) throw new Error(`two types are called ${twice}`);
  return `${HEAD}\n${body.join("\n")}`;
}

const wanted = generate();
for (const target of TARGETS) {
  if (!process.argv.includes("--check")) {
    writeFileSync(target, wanted);
  } else if (readFileSync(target, "utf8") !== wanted) {
    console.error(`${fileURLToPath(target)} is not what \`schemas/\` says: run \`node clients/typescript/scripts/generate.mjs\``);
    process.exit(1);
  }
}
