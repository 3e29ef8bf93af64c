// Runs the code of a page of docs/clients against a server, as recipe.py does.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";

/// What the page's code leaves behind, by name. It runs with the packages beside the file `caller`, a URL. (Node 18, which is
/// Debian's, has no import.meta.dirname.)
export async function run(page, caller, names, url = process.env.TENON_URL) {
  const text = readFileSync(new URL(`../../../docs/clients/${page}`, import.meta.url), "utf8");
  const code = [...text.matchAll(/^```js\n(.*?)^```/gms)].map((block) => block[1]).join("\n");
  assert.ok(code.includes("http://127.0.0.1:8080"), page);
  const file = new URL(`node_modules/.${page}.mjs`, caller);
  writeFileSync(file, `${code.replaceAll("http://127.0.0.1:8080", url)}\nexport { ${names.join(", ")} };\n`);
  return import(file);
}
