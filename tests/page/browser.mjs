// The page in headless Chromium, against the real server with the bundled model, and against mock.mjs for what that
// model cannot show. run.py starts it; by hand: SLUICE_BIN=... SLUICE_SOURCE=... node browser.mjs [WORD OF A TEST'S NAME]
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Mock } from './mock.mjs';
import { launch, serve } from './rig.mjs';

const LAYERS = 8, EXPERTS = 32; // of the bundled model
const WAIT = { timeout: 60000 };
const tests = [];
// Three at a time, since a test mostly waits for the browser: one that talks to the one real server, and two that have a
// server of their own, a stand-in as a rule.
const test = (name, run) => tests.push({ name, run, lane: 'mock' });
const testReal = (name, run) => tests.push({ name, run, lane: 'real' });

// ---- what is tested ----

let browser, real;

// A page of its own for each test, whose console stays empty.
async function open(url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1300, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(60000);
  page.complaints = [];
  page.on('console', (m) => { if (['error', 'warning'].includes(m.type())) page.complaints.push(m.text()); });
  page.on('pageerror', (e) => page.complaints.push(e.stack));
  page.on('request', (r) => { if (!r.url().startsWith(new URL(url).origin)) page.complaints.push(`asks elsewhere: ${r.url()}`); });
  if (options.settings) await context.addInitScript((s) => localStorage.setItem('sluice.settings', JSON.stringify(s)), options.settings);
  await page.goto(url);
  return page;
}

async function close(page) {
  assert.deepEqual(page.complaints, []);
  await page.context().close();
}

const ready = (page) => page.waitForSelector('[data-server=ready]', WAIT);
const say = async (page, text) => {
  await page.fill('#input', text);
  await page.keyboard.press('Enter');
};
const answered = (page) => page.waitForSelector('#composer[data-running=false]', WAIT);
// Conversations are written a moment after they change.
const kept = (page, text) => page.waitForFunction((what) => Object.values({ ...localStorage }).join().includes(JSON.stringify(what).slice(1, -1)), text);
const textOf = (page, selector) => page.locator(selector).last().innerText();
const sideways = (page) => page.evaluate(() => Math.max(...[document.documentElement, ...document.querySelectorAll('#scroll, #experts')].map((e) => e.scrollWidth - e.clientWidth)));

// ---- the real server ----

testReal('loads, streams an answer, and the map follows', async () => {
  const page = await open(real.url, { settings: { max_tokens: '200', temperature: '0' } });
  await ready(page);
  assert.match(await textOf(page, '#server-state'), /^demo, 1,024 tokens/);
  await page.waitForSelector('#map[data-cells]');
  assert.equal(await page.getAttribute('#map', 'data-cells'), String(LAYERS * EXPERTS));
  const before = Number(await page.getAttribute('#map', 'data-resident'));
  const first = await page.evaluate(() => document.getElementById('map').toDataURL());
  await page.evaluate(() => {
    window.lengths = new Set();
    new MutationObserver(() => window.lengths.add(document.querySelector('.answer .markdown:not(.thoughts *)')?.textContent.length ?? 0)).observe(document.getElementById('log'), { subtree: true, childList: true, characterData: true });
  });
  await say(page, 'It is a truth universally acknowledged, that');
  assert.equal(await page.getAttribute('#send', 'aria-label'), 'Stop');
  await answered(page);
  assert.ok((await page.evaluate(() => [...window.lengths].filter((n) => n > 0).length)) > 1, 'the answer came in one piece');
  await page.waitForFunction(() => /hits/.test(document.querySelector('.answer .figures').textContent));
  const figures = await textOf(page, '.answer .figures');
  for (const what of [/first token [\d.]+/, /[\d.]+ tokens\/s/, /200 tokens/, /\d+ of \d+ prompt tokens cached/, /\d+\s?% hits/, /cut at the limit/]) assert.match(figures, what);
  await page.waitForFunction((n) => Number(document.getElementById('map').dataset.resident) > n, before);
  await page.waitForFunction((was) => document.getElementById('map').toDataURL() !== was, first);
  const counts = await page.evaluate(() => ['disk', 'loading', 'cache', 'pinned'].map((t) => Number(document.getElementById(`count-${t}`).textContent)));
  assert.equal(counts.reduce((a, b) => a + b), LAYERS * EXPERTS);
  // The ledger's parts are its whole.
  const ledger = await (await page.request.get(`${real.url}/api/stats`)).json().then((s) => s.ledger);
  assert.equal(await page.locator('#ledger-rows tr').count(), ledger.rows.filter((r) => r.bytes > 0).length + (ledger.rows.reduce((n, r) => n + r.bytes, 0) < ledger.budget_bytes));
  assert.notEqual(await page.getAttribute('#chart-time .line', 'd'), '');
  await close(page);
});

testReal('stops, edits, tries again, and remembers', async () => {
  const page = await open(real.url, { settings: { temperature: '0' } });
  await ready(page);
  await say(page, 'And God said unto Moses,');
  await page.waitForFunction(() => document.querySelector('.answer .markdown:not(.thoughts *)')?.textContent.length > 5, null, WAIT);
  await page.keyboard.press('Escape');
  await answered(page);
  assert.match(await textOf(page, '.answer .figures'), /^stopped/);
  await page.waitForFunction(async () => (await (await fetch('/slots')).json()).every((s) => !s.is_processing), null, WAIT);

  await page.click('#open-settings');
  await page.fill('[name=max_tokens]', '12');
  await page.click('#settings-form .primary');
  await page.getByRole('button', { name: 'Retry' }).click();
  await answered(page);
  assert.match(await textOf(page, '.answer .figures'), /12 tokens/);
  await say(page, 'And what else?');
  await answered(page);
  assert.equal(await page.locator('.message').count(), 4);
  const cached = /([\d,]+) of ([\d,]+) prompt tokens cached/.exec(await textOf(page, '.answer .figures'));
  assert.ok(Number(cached[1]) > 0, cached[0]);

  await page.locator('.user').first().getByRole('button', { name: 'Edit' }).click();
  assert.match(await textOf(page, '.user .note'), /The 3 messages below will be replaced/);
  await page.fill('.edit', 'And Moses said unto God,');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelectorAll('.message').length === 2);
  await answered(page);
  const said = await textOf(page, '.answer .markdown:not(.thoughts *)');
  await kept(page, said);
  await page.reload();
  await ready(page);
  assert.equal(await textOf(page, '.user .said'), 'And Moses said unto God,');
  assert.equal(await textOf(page, '.answer .markdown:not(.thoughts *)'), said);

  await page.click('#new');
  assert.equal(await page.locator('.message').count(), 0);
  await page.click('#open-conversations');
  await page.click('#conversation-list .open');
  assert.equal(await page.locator('.message').count(), 2);
  await close(page);
});

testReal('works by keyboard alone', async () => {
  const page = await open(real.url, { settings: { max_tokens: '8', temperature: '0' } });
  await ready(page);
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter'); // the skip link
  await page.keyboard.type('Call me');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('Ishmael.');
  await page.keyboard.press('Enter');
  await answered(page);
  assert.equal(await textOf(page, '.user .said'), 'Call me\nIshmael.');
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent.trim());
  for (let i = 0; i < 60 && (await focused()) !== 'Experts'; i++) await page.keyboard.press('Shift+Tab');
  await page.keyboard.press('Enter');
  assert.equal(await page.getAttribute('body', 'data-view'), 'experts');
  for (let i = 0; i < 60 && (await focused()) !== 'map'; i++) await page.keyboard.press('Tab');
  assert.equal(await focused(), 'map');
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.notEqual(outline, 'none');
  for (const [key, place] of [['ArrowRight', 'Layer 0, expert 1:'], ['ArrowDown', 'Layer 1, expert 1:'], ['End', 'Layer 1, expert 31:'], ['ArrowRight', 'Layer 2, expert 0:'], ['Control+End', 'Layer 7, expert 31:']]) {
    await page.keyboard.press(key);
    assert.ok((await textOf(page, '#map-says')).startsWith(place), `${key}: ${await textOf(page, '#map-says')}`);
  }
  await close(page);
});

test('asks for a key where the server does', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-page-'));
  await writeFile(join(folder, 'keys'), 'a-good-key\n', { mode: 0o600 });
  const server = await serve('--api-key-file', join(folder, 'keys'));
  const page = await open(server.url, { settings: { max_tokens: '4' } });
  await page.waitForSelector('#settings[open]', WAIT);
  assert.match(await textOf(page, '#key-note'), /needs an API key/);
  await page.keyboard.type('a-wrong-key');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => /does not accept/.test(document.getElementById('key-note').textContent));
  await page.fill('[name=key]', 'a-good-key');
  await page.keyboard.press('Enter');
  await ready(page);
  await say(page, 'Hello');
  await answered(page);
  assert.equal(await page.locator('.answer[data-state=done]').count(), 1);
  // The browser reports each 401 by itself.
  assert.ok(page.complaints.every((c) => /401/.test(c)), page.complaints.join('\n'));
  await page.context().close();
  await server.stop();
  await rm(folder, { recursive: true });
});

async function fitsPhone(url) {
  const page = await open(`${url}/#/chat`, { viewport: { width: 360, height: 640 }, settings: { max_tokens: '20' } });
  await ready(page);
  await say(page, `One${'very'.repeat(60)}long word`);
  await answered(page);
  assert.ok((await sideways(page)) <= 0, 'the chat scrolls sideways');
  await page.click('#views a[href="#/experts"]');
  await page.waitForSelector('#map[data-cells]');
  await page.waitForTimeout(100);
  assert.ok((await sideways(page)) <= 0, 'the map scrolls sideways');
  await page.click('#open-settings');
  assert.ok(await page.evaluate(() => document.getElementById('settings').getBoundingClientRect().right <= innerWidth));
  await close(page);
}
testReal('fits a phone', () => fitsPhone(real.url));
test('fits a phone, with Markdown and a large map', (mock) => fitsPhone(mock.url));

testReal('has files that stay themselves', async () => {
  const page = await open(real.url);
  for (const path of ['/', '/page/main.js', '/page/page.css', '/page/icon.svg']) {
    const response = await page.request.get(real.url + path);
    const headers = response.headers();
    assert.equal(response.status(), 200);
    assert.match(headers['content-security-policy'], /default-src 'none'.*script-src 'self'/);
    assert.match(headers['content-type'], { '/': /^text\/html/, js: /^text\/javascript/, css: /^text\/css/, svg: /^image\/svg/ }[path === '/' ? '/' : path.split('.')[1]]);
    assert.equal((await page.request.get(real.url + path, { headers: { 'If-None-Match': headers.etag } })).status(), 304);
  }
  assert.equal((await page.request.get(`${real.url}/page/none.js`)).status(), 404);
  await ready(page);
  await close(page);
});

// ---- the stand-in ----

test('shows Markdown, and makes no markup of it', async (mock) => {
  const page = await open(mock.url);
  await ready(page);
  await say(page, 'Rivers?');
  await answered(page);
  const answer = page.locator('.answer').last();
  assert.equal(await answer.locator('table tbody tr').count(), 3);
  assert.equal(await answer.locator('ol > li').count(), 2);
  assert.equal(await answer.locator('.code .code-keyword').first().innerText(), 'def');
  assert.deepEqual(await answer.locator('a').evaluateAll((list) => list.map((a) => [a.href, a.rel])), [['https://en.wikipedia.org/wiki/Danube', 'noopener noreferrer nofollow']]);
  assert.equal(await answer.locator('img, script, iframe').count(), 0);
  assert.match(await answer.innerText(), /<img src=x onerror=alert\(1\)>/);
  const thoughts = answer.locator('.thoughts');
  assert.match(await thoughts.innerText(), /^Thought for/);
  assert.equal(await thoughts.evaluate((d) => d.open), false);
  await thoughts.locator('summary').click();
  assert.match(await thoughts.innerText(), /The user wants a table/);
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await answer.getByRole('button', { name: 'Copy this code' }).click();
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^def miles/);
  // Thoughts are not sent back.
  await say(page, 'Again');
  await answered(page);
  assert.deepEqual(mock.requests.at(-1).messages.map((m) => m.role), ['user', 'assistant', 'user']);
  assert.doesNotMatch(JSON.stringify(mock.requests.at(-1)), /The user wants/);
  await close(page);
});

test('stays where the reader is, and does not jump while it streams', async (mock) => {
  Object.assign(mock.options, { delayMs: 12, answer: mock.options.answer + 'And so on, paragraph by paragraph.\n\n'.repeat(300) });
  const page = await open(`${mock.url}/#/chat`, { viewport: { width: 900, height: 500 }, reducedMotion: 'reduce' });
  await ready(page);
  await page.evaluate(() => {
    window.shift = 0;
    new PerformanceObserver((list) => { for (const e of list.getEntries()) window.shift += e.value; }).observe({ type: 'layout-shift', buffered: true });
  });
  await say(page, 'Rivers?');
  await page.waitForSelector('.answer .code', WAIT);
  assert.equal(await page.evaluate(() => document.getAnimations().length), 0, 'something moves');
  const end = () => page.evaluate(() => { const s = document.getElementById('scroll'); return s.scrollHeight - s.scrollTop - s.clientHeight; });
  assert.ok((await end()) < 60, 'whoever is at the end stays there');
  await page.evaluate(() => { document.getElementById('scroll').scrollTop = 0; });
  await page.waitForSelector('#to-end:not([hidden])');
  const length = await page.evaluate(() => document.getElementById('log').textContent.length);
  await page.waitForFunction((n) => document.getElementById('log').textContent.length > n + 150, length);
  assert.equal(await page.getAttribute('#composer', 'data-running'), 'true');
  assert.equal(await page.evaluate(() => document.getElementById('scroll').scrollTop), 0);
  await page.click('#to-end');
  await page.keyboard.press('Escape');
  await answered(page);
  assert.ok((await end()) < 60);
  assert.ok((await page.evaluate(() => window.shift)) < 0.05, `layout shift ${await page.evaluate(() => window.shift)}`);
  await close(page);
});

test('can be read in both themes, and keeps the one that was chosen', async (mock) => {
  const page = await open(mock.url, { viewport: { width: 1300, height: 1000 } });
  await ready(page);
  await say(page, 'Rivers?');
  await answered(page);
  await page.locator('.thoughts summary').last().click();
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  assert.deepEqual(await faint(page), []);
  await page.click('#theme');
  assert.notEqual(await ground(), light);
  assert.deepEqual(await faint(page), []);
  await page.click('#open-settings');
  await page.fill('[name=top_p]', '7');
  assert.deepEqual(await faint(page), []);
  await page.keyboard.press('Escape');
  const dark = await ground();
  await page.reload();
  await ready(page);
  assert.equal(await ground(), dark);
  await close(page);
  const other = await open(mock.url, { colorScheme: 'dark' });
  assert.equal(await other.evaluate(() => getComputedStyle(document.body).backgroundColor), dark);
  await close(other);
});

// Texts whose contrast to what is behind them is under 4.5:1.
function faint(page) {
  return page.evaluate(() => {
    const numbers = (text) => text.match(/[\d.]+/g).map(Number);
    const channel = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
    const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    const behind = (node) => {
      for (let n = node; n; n = n.parentElement) {
        const [r, g, b, a = 1] = numbers(getComputedStyle(n).backgroundColor);
        if (a > 0.99) return [r, g, b];
      }
      return [255, 255, 255];
    };
    const bad = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      const node = walk.currentNode.parentElement;
      if (!walk.currentNode.data.trim() || !node.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || node.closest('.hidden, .skip, :disabled, svg, option, script')) continue;
      const a = luminance(numbers(getComputedStyle(node).color)), b = luminance(behind(node));
      const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      if (contrast < 4.5) bad.push(`${walk.currentNode.data.trim().slice(0, 30)}: ${contrast.toFixed(2)}`);
    }
    return bad;
  });
}

test('says what goes wrong, and goes on', async (mock) => {
  const page = await open(mock.url);
  await ready(page);
  mock.options.failWith = [429, 'the queue is full'];
  await say(page, 'Rivers?');
  await page.waitForSelector('[role=alert]:has-text("the queue is full")');
  mock.options.failWith = null;
  await page.getByRole('button', { name: 'Retry' }).click();
  await page.waitForSelector('.answer[data-state=done] table', WAIT);
  assert.equal(await page.locator('.message').count(), 2);
  assert.ok(page.complaints.every((c) => /429/.test(c)), page.complaints.join('\n'));
  page.complaints = [];
  await close(page);
});

test('waits while the model loads', async () => {
  const loading = new Mock({ layers: 4, experts: 8, used: 2, loading: 0.43 });
  const page = await open(await loading.listen());
  await page.waitForFunction(() => /Loading the model: 43/.test(document.getElementById('server-state').textContent));
  loading.options.loading = 0;
  await ready(page);
  assert.ok(page.complaints.every((c) => /503/.test(c)), page.complaints.join('\n'));
  await page.context().close();
  await loading.close();
});

test('notices that the server has gone, and that it is back', async () => {
  const first = new Mock({ layers: 4, experts: 8, used: 2 });
  const url = await first.listen();
  const page = await open(`${url}/#/chat`);
  await ready(page);
  await first.close();
  await say(page, 'Is anybody there?');
  await page.waitForSelector('[role=alert]:has-text("does not answer")');
  await page.waitForSelector('[data-server=away]');
  const second = new Mock({ layers: 4, experts: 8, used: 2, delayMs: 1 });
  await second.listen(Number(new URL(url).port));
  await ready(page);
  await page.getByRole('button', { name: 'Retry' }).click();
  await page.waitForSelector('.answer[data-state=done] table', WAIT);
  assert.ok(page.complaints.every((c) => /ERR_CONNECTION|ERR_EMPTY/.test(c)), page.complaints.join('\n'));
  await page.context().close();
  await second.close();
});

test('keeps what two tabs say', async (mock) => {
  const page = await open(`${mock.url}/#/chat`);
  await ready(page);
  const other = await page.context().newPage();
  await other.goto(`${mock.url}/#/chat`);
  await ready(other);
  for (const [tab, text] of [[page, 'From the first'], [other, 'From the second']]) {
    await tab.bringToFront(); // behind others, tabs are slow
    await say(tab, text);
    await answered(tab);
    await kept(tab, text);
  }
  for (const tab of [other, page]) {
    await tab.bringToFront();
    await tab.click('#open-conversations');
    assert.equal(await tab.locator('#conversation-list .open').count(), 2);
    await tab.click('#conversations-close');
  }
  await page.click('#open-conversations');
  await page.getByRole('button', { name: 'Delete "From the first"' }).click();
  await page.waitForFunction(() => document.querySelectorAll('#conversation-list .open').length === 1);
  await page.waitForFunction(() => !Object.values({ ...localStorage }).join().includes('From the first'));
  await other.bringToFront();
  await other.reload();
  await ready(other);
  await other.click('#open-conversations');
  assert.deepEqual(await other.locator('#conversation-list .open span').allInnerTexts(), ['From the second']);
  await close(page);
});

test('does not ask while nobody looks', async (mock) => {
  const page = await open(`${mock.url}/#/chat`);
  await ready(page);
  const asked = [];
  page.on('request', (r) => asked.push(new URL(r.url()).pathname));
  await page.waitForTimeout(1500);
  assert.deepEqual(asked, []);
  await page.goto(`${mock.url}/#/experts`);
  await page.waitForSelector('#map[data-cells="6144"]');
  assert.ok(asked.includes('/api/experts'));
  await close(page);
});

// ---- running them ----

const word = process.argv[2];
let failed = 0;
try {
  browser = await launch();
  // Experts in memory are few at the beginning, so that the map has something to show.
  real = await serve('--experts', '40%', '--cold', '--ctx', '1024');
  const left = { real: [], mock: [] };
  for (const t of tests) if (!word || t.name.includes(word)) left[t.lane].push(t);
  const lane = async (which) => {
    for (let t; (t = left[which].shift());) {
      const { name, run } = t;
      const begin = performance.now();
      const mock = which === 'mock' && new Mock({ delayMs: 1 });
      try {
        if (mock) mock.url = await mock.listen();
        await run(mock);
        console.log(`ok   ${name} (${((performance.now() - begin) / 1000).toFixed(1)} s)`);
      } catch (e) {
        failed++;
        console.log(`FAIL ${name}\n${e.stack}`);
      } finally {
        if (mock) await mock.close();
      }
    }
  };
  await Promise.all([lane('real'), lane('mock'), lane('mock')]);
} finally {
  await browser?.close();
  await real?.stop();
}
process.exit(failed ? 1 : 0);
