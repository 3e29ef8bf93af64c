// The inspector of a running server, over answers that it recorded itself. tests/e2e/test_web.py starts the server, asks it, and
// names it in TENON_URL; RECORDINGS has the names of the answers' files by what they are. SHOTS=FOLDER keeps a picture of each view.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const url = process.env.TENON_URL;
const skip = url ? false : "tests/e2e/test_web.py runs it with a server";
const names = JSON.parse(process.env.RECORDINGS ?? "{}");
const shots = process.env.SHOTS;
const kSlow = 60_000; // the cores may have other work

let browser;
before(async () => {
  if (skip) return;
  if (shots) mkdirSync(shots, { recursive: true });
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage"] });
});
after(async () => { await browser?.close(); });

/// A page that fails the test if the browser complains, or if it asks another server.
async function open(address) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 } });
  const page = await context.newPage();
  page.setDefaultTimeout(kSlow);
  page.complaints = [];
  page.on("pageerror", (error) => page.complaints.push(error.stack));
  page.on("console", (message) => { if (message.type() === "error") page.complaints.push(message.text()); });
  page.on("dialog", (dialog) => { page.complaints.push(`dialog ${dialog.message()}`); void dialog.dismiss(); });
  page.on("request", (request) => { if (!request.url().startsWith(url) && !/^(data|about):/.test(request.url())) page.complaints.push(`request to ${request.url()}`); });
  await page.goto(url + address);
  return page;
}
async function close(page, shot) {
  if (shots && shot) await page.screenshot({ path: join(shots, `server-${shot}.png`) });
  assert.deepEqual(page.complaints, []);
  await page.context().close();
}
const view = (name, query) => `/inspector#${names[name]}?${query}`;
const texts = (locator) => locator.allTextContents();

test("the list has every answer", { skip }, async () => {
  const page = await open("/inspector");
  const list = page.getByRole("listbox", { name: "Answers, newest first" });
  await list.getByRole("option").first().waitFor();
  assert.equal(await list.getByRole("option").count(), Object.keys(names).length);
  await page.getByLabel("errors").check();
  const failed = await texts(list.getByRole("option"));
  assert.equal(failed.length, 2, failed.join("; ")); // with the one that was cut
  assert.equal(failed.filter((entry) => entry.includes("never finished")).length, 1, failed.join("; "));
  await close(page, "list");
});

test("the prompt of the demo's call: template, data and the answer", { skip }, async () => {
  const page = await open(view("demo", "view=prompt"));
  const prompt = page.getByRole("region", { name: "The prompt and the answer" });
  await prompt.locator(".seg.template.control").first().waitFor();
  assert.match((await texts(prompt.locator(".seg.data"))).join(""), /What is the weather in Paris\?/);
  assert.match((await texts(page.getByRole("listbox", { name: "Parts" }).locator(".part-name"))).join("|"), /tool 0, get_weather.*user/);
  await close(page, "prompt");
});

test("the timeline of the demo's call: the client's view grows with the tokens", { skip }, async () => {
  const page = await open(view("demo", "view=timeline"));
  const client = page.getByRole("complementary", { name: "The client's view" });
  await client.getByText("Ended: tool_calls").waitFor();
  await page.getByRole("listbox", { name: "Events" }).getByRole("option", { name: /call_begin/ }).first().waitFor();
  const slider = page.getByRole("slider", { name: "Cut the stream" });
  await slider.fill("0");
  await client.getByText("Nothing yet.").waitFor();
  await slider.focus();
  await page.keyboard.press("End");
  await client.getByText("get_weather").first().waitFor();
  await close(page, "timeline");
});

test("the masks of the demo's call", { skip }, async () => {
  const page = await open(view("demo", "view=masks"));
  await page.getByRole("listbox", { name: "Tokens and how many were legal" }).waitFor();
  await page.getByText(/\d+ forced \(\d+ %\)/).waitFor();
  await close(page, "masks");
});

test("the waterfall of an answer whose tools the server ran", { skip }, async () => {
  const page = await open(view("rounds", "view=waterfall"));
  const rows = page.getByRole("listbox", { name: "Runs and waits" });
  await rows.getByRole("option").nth(2).waitFor();
  assert.deepEqual(await texts(rows.locator(".bar-label")), ["run 0", "tool look", "run 1"]);
  await close(page, "waterfall");
});

test("a failed call says what was wrong with it", { skip }, async () => {
  const page = await open(view("failed", "view=timeline"));
  const events = page.getByRole("listbox", { name: "Events" });
  await events.getByRole("option", { name: /call_begin/ }).first().waitFor();
  await events.locator(".event-diagnostic").first().waitFor();
  assert.match((await texts(events.locator(".event-diagnostic"))).join(""), /invalid_arguments/);
  await close(page, "failed");
});

test("an upstream that fails, and a recursive run", { skip }, async () => {
  for (const name of ["gone", "recursive"]) {
    for (const kind of ["prompt", "timeline", "masks", "waterfall", "request"]) {
      const page = await open(view(name, `view=${kind}`));
      await page.getByRole("tab", { name: /./, selected: true }).waitFor();
      assert.equal(await page.getByText("This cannot be drawn").count(), 0, `${name} ${kind}`);
      await close(page, `${name}-${kind}`);
    }
  }
});

test("hostile texts of a client and a model show and harm nothing", { skip }, async () => {
  for (const kind of ["prompt", "timeline", "masks", "waterfall", "request"]) {
    const page = await open(view("hostile", `view=${kind}`));
    await page.getByRole("tab", { name: /./, selected: true }).waitFor();
    await page.getByRole("listbox", { name: "Answers, newest first" }).getByRole("option").first().waitFor();
    assert.equal(await page.getByText("This cannot be drawn").count(), 0, kind);
    const harm = await page.evaluate(() => ({ harmed: window.harmed ?? null, images: document.images.length, scripts: document.scripts.length, handlers: document.querySelectorAll("[onerror], [onclick]").length }));
    assert.deepEqual(harm, { harmed: null, images: 0, scripts: 1, handlers: 0 });
    assert.doesNotMatch(await page.locator("body").textContent(), /[\u202e\u0000\u0007\u001b]/);
    if (kind === "prompt") assert.match(await page.locator("main").textContent(), /<img src=x onerror=/);
    await close(page, `hostile-${kind}`);
  }
});

test("a recording that was cut in the middle is shown as far as it goes", { skip }, async () => {
  const page = await open(view("cut", "view=timeline"));
  await page.getByRole("region", { name: "The output, token by token" }).waitFor();
  assert.equal(await page.getByText("This cannot be drawn").count(), 0);
  await page.getByText("never finished", { exact: true }).waitFor();
  await close(page, "cut");
});
