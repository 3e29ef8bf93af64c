#!/usr/bin/env node
// How fast the inspector shows recordings of a thousand turns, from `tenon serve` in Debian's Chromium.
//
//     node bench/inspector_figures.mjs [--tenon build/release/bin/tenon] [--rounds 9]
//
// The recordings are those of web/sample.mjs: a conversation of a thousand turns with an answer of 3,000 tokens, and an answer of a
// thousand rounds whose tools the server ran. The time goes from the address to the first rows drawn, in the page's own clock; the
// reading of the file is part of it. The figure is the median of the rounds, each of which begins with no answer chosen.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";

const root = fileURLToPath(new URL("../", import.meta.url));
const { chromium } = createRequire(join(root, "web/package.json"))("playwright-core");
const { writeSamples } = await import(join(root, "web/sample.mjs"));
const { values } = parseArgs({ options: { tenon: { type: "string", default: join(root, "build/release/bin/tenon") }, rounds: { type: "string", default: "9" } } });

const folder = mkdtempSync(join(tmpdir(), "tenon-inspector-"));
const records = join(folder, "records");
const names = await writeSamples(records);
writeFileSync(join(folder, "tenon.toml"), `[server]\nport = 0\nrecord = ${JSON.stringify(records)}\n[[model]]\nname = "tenon-tiny"\npath = ${JSON.stringify(join(root, "models/tenon-tiny.gguf"))}\n`);
const server = spawn(values.tenon, ["serve", "--config", join(folder, "tenon.toml")], { stdio: ["ignore", "pipe", "ignore"] });
const ended = once(server, "exit");
let browser;

/// The address that the server tells when it is ready.
async function addressOf(process) {
  let said = "";
  for await (const piece of process.stdout) {
    said += piece;
    const found = /http:\/\/127\.0\.0\.1:\d+/.exec(said);
    if (found) return found[0];
  }
  throw new Error(`the server has ended, and said ${JSON.stringify(said)}`);
}

try {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  const url = await addressOf(server);
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  await page.goto(`${url}/inspector`);
  await page.getByRole("listbox", { name: "Answers, newest first" }).getByRole("option").first().waitFor();
  console.log("| recording | picture | ms until the first rows | slowest |\n|---|---|---|---|");
  for (const [sample, view, region] of [
    ["thousand", "prompt", "The prompt and the answer"], ["thousand", "timeline", "The output, token by token"],
    ["rounds1000", "waterfall", "Runs and waits"], ["rounds1000", "timeline", "The output, token by token"],
  ]) {
    const times = [];
    for (let round = 0; round < Number(values.rounds); ++round) {
      await page.evaluate(() => { location.hash = "#"; });
      await page.getByText("Choose an answer.").waitFor();
      times.push(await page.evaluate(([hash, label]) => new Promise((resolve) => {
        const began = performance.now();
        location.hash = hash;
        const look = () => (document.querySelector(`[aria-label="${label}"] .row`) ? resolve(performance.now() - began) : requestAnimationFrame(look));
        look();
      }), [`${names[sample]}?view=${view}`, region]));
    }
    const size = (statSync(join(records, names[sample])).size / 1e6).toFixed(1);
    times.sort((a, b) => a - b);
    console.log(`| ${sample}, ${size} MB | ${view} | ${Math.round(times[Math.floor(times.length / 2)])} | ${Math.round(times.at(-1))} |`);
  }
  for (const name of ["app.js", "home.js"]) {
    console.log(`${name}: ${(gzipSync(readFileSync(join(root, "web/dist", name)), { level: 9 }).length / 1000).toFixed(1)} KB compressed`);
  }
} finally {
  await browser?.close();
  server.kill();
  await ended;
  rmSync(folder, { recursive: true });
}
