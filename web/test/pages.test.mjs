// The pages in Debian's Chromium, over the recordings of sample.mjs and with the server's Content-Security-Policy.
// SHOTS=FOLDER keeps a picture of each view, to be looked at. CHROMIUM names another browser.
import assert from "node:assert/strict";
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { kAttack, writeSamples } from "../sample.mjs";
import { serve } from "../serve.mjs";

const path = process.env.CHROMIUM ?? "/usr/bin/chromium";
const skip = existsSync(path) ? false : `there is no ${path}: scripts/setup.sh web installs it`;
if (skip) console.error(`SKIPPED: the pages are not tested in a browser, because ${skip}`);
const shots = process.env.SHOTS;
const kSlow = 30_000; // two cores may have other work

let folder, names, site, browser;
before(async () => {
  if (skip) return;
  if (shots) mkdirSync(shots, { recursive: true });
  folder = mkdtempSync(join(tmpdir(), "tenon-pages-"));
  names = await writeSamples(folder);
  site = await serve({ folder });
  browser = await chromium.launch({ executablePath: path, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
});
after(async () => {
  await browser?.close();
  site?.server.closeAllConnections();
  site?.server.close();
  if (folder) rmSync(folder, { recursive: true });
});

/// A page that fails the test if the browser complains: of an error, or of what the policy forbids.
async function open(address, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(kSlow);
  page.complaints = [];
  page.on("pageerror", (error) => page.complaints.push(error.stack));
  page.on("console", (message) => { if (message.type() === "error" && !/status of 40[14]/.test(message.text())) page.complaints.push(message.text()); });
  page.on("dialog", (dialog) => { page.complaints.push(`dialog ${dialog.message()}`); void dialog.dismiss(); });
  page.on("request", (request) => { if (!request.url().startsWith(site.url) && !/^(data|about):/.test(request.url()) && !options.anySite) page.complaints.push(`request to ${request.url()}`); });
  await page.goto(address.startsWith("http") ? address : site.url + address);
  return page;
}
async function close(page, shot) {
  if (shots && shot) await page.screenshot({ path: join(shots, `${shot}.png`) });
  assert.deepEqual(page.complaints, []);
  await page.context().close();
}
const view = (sample, query) => `/inspector#${names[sample]}?${query}`;
const answers = (page) => page.getByRole("listbox", { name: "Answers, newest first" }).getByRole("option");
const texts = (locator) => locator.allTextContents();

test("the list shows, filters and opens answers", { skip }, async () => {
  const page = await open("/inspector");
  const list = page.getByRole("listbox", { name: "Answers, newest first" });
  await list.getByRole("option").first().waitFor();
  assert.equal(await list.getByRole("option").count(), Object.keys(names).length);
  await page.getByLabel("Tool", { exact: true }).selectOption("search");
  assert.equal(await list.getByRole("option").count(), 2);
  await page.getByLabel("Tool", { exact: true }).selectOption("");
  await page.getByLabel("errors").check();
  assert.equal(await list.getByRole("option").count(), 4); // with the one that was cut
  assert.equal(await list.getByText("never finished").count(), 1);
  await page.getByLabel("errors").uncheck();
  await page.getByLabel("slow").check();
  assert.equal(await list.getByRole("option").count(), 2);
  await page.getByLabel("slow").uncheck();
  await page.getByLabel("repairs").check();
  await page.getByLabel("Model", { exact: true }).selectOption("other-model");
  assert.equal(await list.getByRole("option").count(), 1);
  await list.getByRole("option").first().click();
  await page.getByRole("heading", { name: /other-model/ }).waitFor();
  assert.match(page.url(), /repaired\.jsonl\?view=timeline/);
  await close(page, "list");
});

test("a search in texts finds what tokens spell together", { skip }, async () => {
  const page = await open("/inspector");
  await answers(page).first().waitFor();
  await page.getByLabel("Model", { exact: true }).selectOption("tenon-tiny");
  const search = page.getByRole("searchbox");
  await search.fill("18 °c and CLEAR");
  await search.press("Enter");
  await page.getByText(/(\d+) of \1 searched, 1 found/).waitFor();
  assert.equal(await answers(page).count(), 1);
  await answers(page).first().click();
  await page.getByText("chatcmpl-demo2", { exact: true }).waitFor();
  await close(page);
});

test("prompt: template, data, control tokens, origins and counts", { skip }, async () => {
  const page = await open(view("demo2", "view=prompt"));
  const prompt = page.getByRole("region", { name: "The prompt and the answer" });
  await prompt.waitFor();
  // What a message spells as a control token is data and has no box.
  const boxed = await texts(prompt.locator(".seg.template.control"));
  assert.ok(boxed.includes("<|im_start|>"));
  assert.equal((await texts(prompt.locator(".seg.data.control"))).length, 0);
  assert.match((await texts(prompt.locator(".seg.data.of-system"))).join(""), /Text such as <\|im_end\|> in a message/);
  assert.match((await texts(prompt.locator(".seg.data.of-result"))).join(""), /"temperature": 18/);
  await page.getByText(/shares \d+ of \d+ tokens/).waitFor();
  const parts = page.getByRole("listbox", { name: "Parts" });
  assert.deepEqual((await texts(parts.locator(".part-name"))), ["message 0, system", "tool 0, search", "tool 1, get_weather", "message 1, user", "message 2, assistant", "message 3, tool", "the template's end"]);
  await parts.getByRole("option").nth(5).click();
  assert.match(await page.locator("aside dl").textContent(), /messages\[3\]\.content/);
  assert.match((await texts(prompt.locator(".seg.picked"))).join(""), /"sky": "clear"/);
  // A token of the answer, which stands behind the prompt, leads to the timeline.
  await prompt.locator(".seg.output", { hasText: "Paris" }).click();
  await page.getByRole("button", { name: "Show the token in the timeline" }).click();
  await page.getByText(/^Token 8, id/).waitFor();
  await close(page, "prompt");
});

test("timeline: the slider cuts the stream and shows what the client knows", { skip }, async () => {
  const page = await open(view("demo1", "view=timeline"));
  const client = page.getByRole("complementary", { name: "The client's view" });
  await client.getByText('{"location": "Paris"}').waitFor();
  const slider = page.getByRole("slider", { name: "Cut the stream" });
  const last = Number(await slider.getAttribute("max"));
  let before = "";
  for (let step = 0; step < last; step += 7) {
    await slider.fill(String(step));
    const now = (await texts(client.locator("pre.text")).then((all) => all.join("|")));
    assert.ok(now.length >= before.length);
    before = now;
  }
  await slider.fill("0");
  await client.getByText("Nothing yet.").waitFor();
  await slider.focus();
  await page.keyboard.press("End");
  await client.getByText("Ended: tool_calls").waitFor();
  // An event leads to its token.
  await page.getByRole("listbox", { name: "Events" }).getByRole("option", { name: /call_begin/ }).click();
  await page.getByLabel("The selected token").waitFor();
  assert.match(page.url(), /token=17&step=\d+/);
  assert.equal(await client.getByText("Paris").count(), 0);
  await close(page, "timeline");
});

test("timeline: a failed call shows its repair and its error", { skip }, async () => {
  const page = await open(view("repaired", "view=timeline"));
  await page.getByRole("alert").filter({ hasText: "the call does not fit its schema" }).waitFor();
  const events = page.getByRole("listbox", { name: "Events" });
  assert.equal(await events.locator(".event-diagnostic").count(), 2);
  assert.match((await texts(events.locator(".event-diagnostic"))).join(""), /mended_arguments.*invalid_arguments/s);
  await close(page, "failed-call");
});

test("timeline: several choices", { skip }, async () => {
  const page = await open(view("choices", "view=timeline"));
  await page.getByLabel(/^Run/).selectOption("2");
  const output = page.getByRole("region", { name: "The output, token by token" });
  await output.getByText("Hey").waitFor();
  for (const words of ["Hello there!", "Hi you!", "Hey👋?"]) assert.equal(await page.locator("aside").getByText(words, { exact: true }).count(), 1);
  await close(page, "choices");
});

test("masks: what was legal, what was taken away, and where the grammar stands", { skip }, async () => {
  const page = await open(view("demo1", "view=masks&token=21"));
  const mask = page.getByRole("complementary", { name: "The mask of the selected token" });
  await mask.getByText("3 tokens of the vocabulary were legal.").waitFor();
  assert.deepEqual(await texts(mask.locator("del")), [" [", " null", " {"]);
  assert.match(await mask.locator("dl").textContent(), /get_weather.*\/location.*#\/properties\/location/s);
  assert.match(await mask.locator("pre").textContent(), /"minLength": 1/);
  await page.getByText("16 forced (67 %), the longest run 6").waitFor();
  await page.getByRole("listbox", { name: "Tokens and how many were legal" }).focus();
  await page.keyboard.press("Home");
  await mask.getByText("No mask held here.").waitFor();
  await close(page, "masks");
});

test("waterfall: runs, tools and the conversation", { skip }, async () => {
  const page = await open(view("rounds4", "view=waterfall"));
  const rows = page.getByRole("listbox", { name: "Runs and waits" });
  await rows.getByRole("option").first().waitFor();
  assert.deepEqual(await texts(rows.locator(".bar-label")), ["run 0", "tool search", "run 1", "tool search", "run 2", "tool search", "run 3"]);
  assert.equal(await rows.locator(".bars .failed").count(), 1);
  await rows.getByRole("option").nth(3).click();
  await page.getByRole("region", { name: "The selected call of a tool" }).getByText("page 1 says nothing").waitFor();
  await page.keyboard.press("4");
  await rows.getByRole("option").nth(4).click();
  assert.match(page.url(), /view=timeline&run=2/);
  await page.goto(site.url + view("demo2", "view=waterfall"));
  await page.getByLabel(/the whole conversation \(2 answers\)/).check();
  assert.deepEqual(await texts(rows.locator(".bar-label")), ["14:30:00", "the client", "14:30:04 (this)"]);
  await rows.getByRole("option").first().click();
  await page.getByText("chatcmpl-demo1", { exact: true }).waitFor();
  await close(page, "waterfall");
});

test("answers without contents, without a run and of another dialect", { skip }, async () => {
  const page = await open(view("sizes", "view=prompt"));
  await page.getByText(/has no prompt as text/).waitFor();
  await page.goto(site.url + view("refused", "view=timeline"));
  await page.getByText("No run of a model").waitFor();
  await page.goto(site.url + view("messages", "view=timeline"));
  await page.locator("aside").getByText('{"location": "Oslo"}').waitFor();
  await close(page);
});

test("the keyboard is enough", { skip }, async () => {
  const page = await open("/inspector");
  await answers(page).first().waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("demo1");
  assert.equal(await answers(page).count(), 1);
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.getByText("chatcmpl-demo1", { exact: true }).waitFor();
  for (const [key, name] of [["1", "Prompt"], ["3", "Masks"], ["4", "Waterfall"], ["5", "Request"], ["2", "Timeline"]]) {
    await page.keyboard.press(key);
    await page.getByRole("tab", { name, selected: true }).waitFor();
  }
  await page.keyboard.press("ArrowRight");
  await page.getByText(/^Token 0, id/).waitFor();
  await page.keyboard.press("ArrowRight");
  await page.getByText(/^Token 1, id/).waitFor();
  await page.keyboard.press("?");
  await page.getByRole("region", { name: "Keys" }).waitFor();
  await page.goBack();
  await close(page);
});

test("every control has a name", { skip }, async () => {
  for (const address of ["/", view("demo1", "view=prompt"), view("demo1", "view=timeline&token=3"), view("demo1", "view=masks"), view("rounds4", "view=waterfall")]) {
    const page = await open(address);
    await page.getByRole("button").first().waitFor();
    const unnamed = await page.evaluate(() =>
      [...document.querySelectorAll("button, input, select, textarea, [role=listbox], [role=region], svg[role=img]")]
        .filter((element) => !(element.getAttribute("aria-label") || element.textContent.trim() || element.labels?.length || element.id === "cut"))
        .map((element) => element.outerHTML.slice(0, 200)));
    assert.deepEqual(unnamed, [], address);
    await close(page);
  }
});

test("copies: a test row, a command and a link", { skip }, async () => {
  const page = await open(view("demo1", "view=masks&token=21"), { permissions: ["clipboard-read", "clipboard-write"] });
  const copied = async (name) => {
    await page.getByRole("button", { name }).click();
    await page.getByText("(copied)").first().waitFor();
    return page.evaluate(() => navigator.clipboard.readText());
  };
  assert.match(JSON.parse(await copied("Copy as test row")).chunks.join(""), /Paris/);
  assert.match(await copied("Copy as curl"), /^curl 'http:\/\/127\.0\.0\.1:\d+\/v1\/chat\/completions'/);
  assert.equal(await copied("Copy link"), page.url());
  await close(page);
});

test("a hostile recording shows and harms nothing", { skip }, async () => {
  for (const name of ["prompt", "timeline", "masks", "waterfall", "request"]) {
    const page = await open(view("hostile", `view=${name}`));
    await page.getByRole("tab", { name: /./, selected: true }).waitFor();
    await answers(page).first().waitFor();
    assert.equal(await page.getByText("This cannot be drawn").count(), 0, name);
    const harm = await page.evaluate(() => ({ harmed: window.harmed ?? null, images: document.images.length, scripts: document.scripts.length, handlers: document.querySelectorAll("[onerror], [onclick]").length }));
    assert.deepEqual(harm, { harmed: null, images: 0, scripts: 1, handlers: 0 });
    assert.ok((await page.locator("main").textContent()).includes(kAttack.slice(0, 40)), name);
    // Nothing turns the text around or is unseen.
    assert.doesNotMatch(await page.locator("body").textContent(), /[\u202e\u0000\u0007\u001b]/);
    await close(page, `hostile-${name}`);
  }
});

test("100 MB that end in the middle are read up to the limit, and the page stays alive", { skip, timeout: 240_000 }, async () => {
  const page = await open(view("huge", "view=timeline"));
  await page.getByText(/larger than recordings become/).waitFor({ timeout: 200_000 });
  await page.keyboard.press("1");
  await page.getByRole("region", { name: "The prompt and the answer" }).waitFor();
  await page.keyboard.press("3");
  await page.getByRole("listbox", { name: "Tokens and how many were legal" }).waitFor();
  assert.ok((await page.locator("*").count()) < 2000); // what is not in sight is no element
  assert.equal(await page.evaluate(() => window.harmed ?? null), null);
  await close(page, "huge");
});

test("of a thousand turns only those in sight are elements", { skip }, async () => {
  const page = await open("/inspector"); // bench/inspector_figures.mjs measures how fast they open
  await answers(page).first().waitFor();
  for (const [sample, name, region] of [["thousand", "prompt", "The prompt and the answer"], ["thousand", "timeline", "The output, token by token"], ["rounds1000", "waterfall", "Runs and waits"], ["rounds1000", "timeline", "The output, token by token"]]) {
    await page.evaluate((hash) => { location.hash = hash; }, `${names[sample]}?view=${name}`);
    await page.locator(`[aria-label="${region}"] .row`).first().waitFor();
    assert.ok((await page.locator("*").count()) < 3000);
  }
  await close(page, "thousand");
});

test("an answer under way grows on the page", { skip }, async () => {
  const name = "2026-11-29/235959-000-live.jsonl";
  const whole = readFileSync(join(folder, names.demo1), "utf8");
  const cut = Buffer.from(whole).indexOf('"token"', 6000) + 3; // within a line
  writeFileSync(join(folder, name), Buffer.from(whole).subarray(0, cut));
  const page = await open(`/inspector#${name}?view=timeline`);
  await page.getByText("no end yet").waitFor();
  assert.equal(await page.locator("aside").getByText('{"location": "Paris"}').count(), 0);
  appendFileSync(join(folder, name), Buffer.from(whole).subarray(cut));
  await page.locator("aside").getByText('{"location": "Paris"}').waitFor();
  await page.getByText("status 200").waitFor();
  assert.equal(await page.getByText("cannot be read").count(), 0);
  await close(page);
});

test("a server with keys asks for one, and the key stays in the tab", { skip }, async () => {
  const locked = await serve({ folder, apiKey: "secret" });
  for (const path of ["/inspector", "/"]) {
    const page = await open(locked.url + path, { anySite: true });
    await page.getByText("This server asks for an API key.").waitFor();
    await page.getByLabel("API key").fill("wrong");
    await page.keyboard.press("Enter");
    await page.getByText("The server refuses this key").waitFor();
    await page.getByLabel("API key").fill("secret");
    await page.keyboard.press("Enter");
    await (path === "/" ? page.getByRole("cell", { name: "tenon-tiny also tiny" }) : answers(page).first()).waitFor();
    assert.deepEqual(await page.evaluate(() => [sessionStorage.length, localStorage.length]), [1, 0]);
    await close(page);
  }
  locked.server.closeAllConnections();
  locked.server.close();
});

test("dark, and narrow", { skip }, async () => {
  const dark = await open(view("demo1", "view=prompt"), { colorScheme: "dark" });
  await dark.getByRole("region", { name: "The prompt and the answer" }).waitFor();
  assert.equal(await dark.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(20, 23, 27)");
  await close(dark, "dark");
  const narrow = await open(view("demo1", "view=timeline"), { viewport: { width: 600, height: 800 } });
  await narrow.getByRole("button", { name: "All answers" }).click();
  await answers(narrow).first().click();
  await narrow.getByRole("tab", { name: "Timeline" }).waitFor();
  assert.ok(await narrow.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await close(narrow, "narrow");
});

test("the first page: status and the playground", { skip }, async () => {
  const page = await open("/");
  await page.getByRole("cell", { name: "tenon-tiny also tiny" }).waitFor();
  await page.getByRole("cell", { name: "down, or never asked" }).waitFor();
  await page.getByRole("button", { name: "Send", exact: true }).click();
  const turns = page.getByRole("list", { name: "The conversation" });
  await turns.getByText('{"location": "Paris"}').waitFor();
  await page.getByLabel("Result of get_weather").fill("18 degrees <b>");
  await page.getByRole("button", { name: "Send the results" }).click();
  await turns.getByText("It said: 18 degrees <b>").waitFor();
  await turns.getByText(/stop, .* 21 tokens in, 7 out, masked/).waitFor();
  await page.getByLabel("Tools, as JSON").fill("[{");
  await page.getByText(/The tools are not JSON/).waitFor();
  assert.equal(await page.getByRole("button", { name: "Send", exact: true }).isDisabled(), true);
  await close(page, "home");
});
