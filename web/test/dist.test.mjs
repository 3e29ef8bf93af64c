// What is committed in web/dist: that the sources give exactly it, that it is small, and that the server's strict
// Content-Security-Policy holds for it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const dist = fileURLToPath(new URL("../dist/", import.meta.url));
const kNames = ["app.css", "app.js", "home.css", "home.html", "home.js", "index.html"];
const read = (name) => readFileSync(join(dist, name));

test("dist is what the sources give", () => {
  const folder = mkdtempSync(join(tmpdir(), "tenon-dist-"));
  try {
    execFileSync(fileURLToPath(new URL("../build.sh", import.meta.url)), [folder], { stdio: ["ignore", "inherit", "inherit"] });
    assert.deepEqual(readdirSync(dist).sort(), kNames);
    assert.deepEqual(readdirSync(folder).sort(), kNames);
    for (const name of kNames) assert.ok(read(name).equals(readFileSync(join(folder, name))), `web/dist/${name} is not what web/build.sh makes; run it and commit`);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("the inspector's JavaScript has at most 150 KB when compressed", () => {
  for (const name of ["app.js", "home.js"]) assert.ok(gzipSync(read(name), { level: 9 }).length <= 150_000, name);
});

test("nothing in it needs what the policy forbids", () => {
  for (const name of ["index.html", "home.html"]) {
    const html = read(name).toString();
    assert.doesNotMatch(html, /<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc="\/)/);
    assert.doesNotMatch(html, /(src|href)="(https?:)?\/\//);
  }
  for (const name of ["app.js", "home.js"]) assert.doesNotMatch(read(name).toString(), /\beval\(|new Function|sourceMappingURL|https?:\/\/(?!127|localhost|www\.w3\.org\/)/);
  // Texts from outside never become markup. Preact's own way to do that is there, and our sources do not use it.
  for (const name of readdirSync(new URL("../src/", import.meta.url))) {
    assert.doesNotMatch(readFileSync(new URL(`../src/${name}`, import.meta.url), "utf8"), /innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySet/, name);
  }
});
