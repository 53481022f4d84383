// The page's other pure modules.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nice, niceBytes, points } from '../../src/serve/page/charts.js';
import * as talk from '../../src/serve/page/conversation.js';
import { bytes, count, percent, rate, seconds } from '../../src/serve/page/format.js';
import { cellAt, cellPlace, describe, heatScale, layOut, moveCursor, readExperts, strength, tally } from '../../src/serve/page/layout.js';
import { rowsOf } from '../../src/serve/page/ledger.js';
import { Window, difference } from '../../src/serve/page/rates.js';
import { prefixesOf, stateOf } from '../../src/serve/page/sessions.js';
import { SseReader } from '../../src/serve/page/sse.js';

const plain = (text) => text.replaceAll('\u202f', ' ');

test('numbers as people read them', () => {
  assert.deepEqual([0, 999, 1024, 29360128, 8589934592, 1023 * 1024, -2048, NaN].map((n) => plain(bytes(n))),
    ['0 B', '999 B', '1.00 KiB', '28.0 MiB', '8.00 GiB', '1.00 MiB', '−2.00 KiB', '–']);
  assert.deepEqual([0, 0.001, 0.5, 0.999, 1, NaN].map((n) => plain(percent(n))), ['0 %', '<1 %', '50 %', '>99 %', '100 %', '–']);
  assert.deepEqual([12, 420, 4200, 42000, 125000, 7260000].map((n) => plain(seconds(n))), ['12 ms', '0.42 s', '4.20 s', '42.0 s', '2 min 5 s', '2 h 1 min']);
  assert.deepEqual([1234567, 0.5].map(count), ['1,234,567', '1']);
  assert.deepEqual([0.1234, 12.34, 1234].map(rate), ['0.12', '12.3', '1,234']);
});

test('events come whole, however they were cut', () => {
  const text = ': alive\n\ndata: {"a":1}\n\nevent: x\r\ndata: one\r\ndata:two\r\n\r\nid: 3\ndata: [DONE]\n\n';
  const expected = [{ name: 'message', data: '{"a":1}' }, { name: 'x', data: 'one\ntwo' }, { name: 'message', data: '[DONE]' }];
  for (let size = 1; size <= text.length; size++) {
    const reader = new SseReader();
    const events = [];
    for (let i = 0; i < text.length; i += size) events.push(...reader.push(text.slice(i, i + size)));
    assert.deepEqual(events, expected, `pieces of ${size}`);
  }
});

function sample() {
  const c = talk.newConversation(1);
  talk.addUser(c, '  first\nline', 2);
  talk.addAnswer(c, { content: 'A' }, 3);
  talk.addUser(c, 'second', 4);
  talk.addAnswer(c, { content: 'B', reasoning: 'r' }, 5);
  return c;
}

test('editing and trying again drop what came after', () => {
  let c = sample();
  assert.deepEqual([c.title, c.changed, c.messages.length], ['first', 5, 4]);
  talk.editUser(c, 2, 'other', 9);
  assert.deepEqual(c.messages.map((m) => m.content), ['  first\nline', 'A', 'other']);
  talk.editUser(c, 0, 'new', 9);
  assert.deepEqual([c.messages.length, c.title], [1, 'new']);
  assert.throws(() => talk.editUser(sample(), 1, 'x'), RangeError);
  for (const [index, left] of [[3, 3], [2, 3], [1, 1], [0, 1]]) {
    c = sample();
    assert.ok(talk.dropAnswer(c, index));
    assert.equal(c.messages.length, left);
  }
  c.messages.length = 1;
  assert.ok(talk.dropAnswer(c, 1)); // the answer that never came
  assert.equal(talk.dropAnswer(talk.newConversation(), 0), false);
});

test('what is sent', () => {
  const c = sample();
  talk.addUser(c, 'third');
  talk.addUser(c, 'again');
  const body = talk.requestOf(c, { system: ' be brief ', temperature: '0', top_p: '', top_k: 'x', max_tokens: '10', seed: '-1', thinking: 'off' }, 'm');
  assert.deepEqual(body.messages.map((m) => m.role), ['system', 'user', 'assistant', 'user', 'assistant', 'user']);
  assert.equal(body.messages.at(-1).content, 'third\n\nagain');
  assert.deepEqual(Object.keys(body.messages[4]), ['role', 'content']); // no thoughts, no figures
  delete body.messages;
  assert.deepEqual(body, { model: 'm', temperature: 0, max_tokens: 10, enable_thinking: false });
  assert.deepEqual(['', ' 0.5 ', '2', 'x', '-1'].map((t) => talk.fieldError('top_p', t)), ['', '', 'from 0 to 1', 'not a number', 'from 0 to 1']);
  assert.equal(talk.fieldError('top_k', '1.5'), 'a whole number is needed');
});

test('figures of an answer', () => {
  const end = { timings: { cache_n: 90, prompt_n: 10, predicted_n: 5, predicted_per_second: 12 }, usage: null };
  const before = { engine: { hits: 10, misses: 10, read_bytes: 5 }, server: { jobs_started: 3 } };
  const after = { engine: { hits: 100, misses: 20, read_bytes: 55 }, server: { jobs_started: 4 } };
  assert.deepEqual(talk.figuresOf(end, { firstMs: 7 }, before, after), { firstMs: 7, tokens: 5, perSecond: 12, prompt: 100, cached: 90, hits: 0.9, readBytes: 50 });
  after.server.jobs_started = 5; // somebody else was served
  assert.equal(talk.figuresOf(end, {}, before, after).hits, null);
  assert.equal(talk.figuresOf(null, {}, null, null).prompt, null);
});

class Storage {
  constructor(room = Infinity) { Object.assign(this, { room, text: null }); }
  getItem() { return this.text; }
  setItem(_, text) {
    if (text.length > this.room) throw new Error('QuotaExceededError');
    this.text = text;
  }
}

test('conversations are kept, the latest first, and the oldest give way', () => {
  const list = Array.from({ length: 60 }, (_, i) => ({ ...sample(), id: String(i), changed: i }));
  const storage = new Storage();
  assert.ok(talk.saveAll(storage, [...list, talk.newConversation()]));
  const back = talk.loadAll(storage);
  assert.deepEqual([back.length, back[0].id], [talk.CONVERSATIONS_MAX, '59']);
  const small = new Storage(storage.text.length / 5);
  assert.ok(talk.saveAll(small, list));
  assert.ok(talk.loadAll(small).length >= 6);
  assert.equal(talk.saveAll(new Storage(3), list), false);
  for (const text of ['', '{', 'null', '{}', '[null, 1, {"id":"x"}, {"id":"y","messages":[{"role":"system","content":"z"}]}]'])
    assert.deepEqual(talk.loadAll(Object.assign(new Storage(), { text })), []);
});

test('two tabs keep what either has', () => {
  const c = (id, changed) => ({ ...sample(), id, changed });
  const mine = [c('a', 5), c('open', 5), c('old', 1)];
  const all = talk.merge(mine, [c('b', 9), c('old', 7), c('open', 8), c('gone', 9)], mine[1], new Set(['gone']));
  assert.deepEqual(all.map((x) => [x.id, x.changed]), [['a', 5], ['open', 5], ['old', 7], ['b', 9]]);
  assert.equal(all[1], mine[1]);
});

function stats(s, engine = {}) {
  return { time_ns: s * 1e9, engine: { tokens_prefill: 0, tokens_decode: 0, prefill_ns: 0, decode_ns: 0, hits: 0, misses: 0, read_bytes: 0, wait_ns: 0, disk_busy_ns: 0, ...engine } };
}

test('what lies between two looks', () => {
  const d = difference(stats(1), stats(3, { decode_ns: 1e9, wait_ns: 5e8, disk_busy_ns: 1e9, hits: 9, misses: 1, read_bytes: 200, tokens_decode: 10 }));
  assert.deepEqual({ compute: d.compute, wait: d.wait, disk: d.disk, hits: d.hits, read: d.readPerSecond, speed: d.answerPerSecond },
    { compute: 0.25, wait: 0.25, disk: 0.5, hits: 0.9, read: 100, speed: 5 });
  assert.equal(difference(stats(1), stats(1)), null);
  assert.equal(difference(stats(1, { hits: 5 }), stats(2)), null); // another server
});

test('the window forgets, and does not draw what nobody saw', () => {
  const w = new Window(10);
  for (let s = 0; s <= 30; s++) w.add(stats(s, { hits: s }), false);
  assert.ok(w.samples.length >= 10 && w.samples.length <= 11);
  w.pause();
  w.add(stats(100, { hits: 100 }), false);
  w.add(stats(101, { hits: 101 }), false);
  assert.deepEqual(w.samples.map((s) => s.at), [101]);
  w.add(stats(101.5, { hits: 101 }), true); // busy, but nothing new was published: wait
  assert.equal(w.samples.length, 1);
  w.add(stats(102, { hits: 110 }), true);
  assert.equal(w.samples.at(-1).seconds, 1);
});

test('charts: scale and gaps', () => {
  assert.deepEqual([0, 1, 1.1, 3, 7, 12, 480].map((v) => nice(v, 1)), [1, 1, 2, 5, 10, 20, 500]);
  assert.deepEqual([0, 3 * 2 ** 20, 3 * 2 ** 30].map(niceBytes), [2 ** 20, 5 * 2 ** 20, 5 * 2 ** 30]);
  const s = (at, v) => ({ at, seconds: 1, v });
  const runs = points([s(1, 1), s(2, 0.5), s(3, null), s(4, 0)], (x) => x.v, 4, 4, 1);
  assert.deepEqual(runs, [[[0, 0], [80, 0], [80, 36], [160, 36]], [[240, 72], [320, 72]]]);
});

const picture = readExperts({ tiers: { '.': 'disk', l: 'loading', c: 'cache', p: 'pinned' }, n_expert_used: 1, layers: [{ layer: 1, tier: '.lcp', heat: [0, 0.25, 0.5, 0.05] }, { layer: 2, tier: 'c?', heat: [] }] });

test('the picture of the experts', () => {
  assert.deepEqual([...picture.layers[0].tiers], [0, 1, 2, 3]);
  assert.deepEqual(tally(picture), [2, 1, 2, 1]);
  assert.equal(describe(picture, { row: 0, expert: 2 }), 'Layer 1, expert 2: in the cache, chosen by 50 % of tokens, 2.0 times the mean');
  assert.equal(describe(picture, { row: 0, expert: 0 }), 'Layer 1, expert 0: on disk, not chosen so far');
  assert.match(describe(picture, { row: 0, expert: 3 }), /^Layer 1, expert 3: pinned in memory, chosen by 5.0 % of tokens, 0.2 of the mean$/);
  assert.deepEqual([strength(0, 1), strength(0.25, 1), strength(9, 1)], [0, 0.5, 1]);
  assert.equal(heatScale(readExperts({ layers: [] })), 1);
});

test('every cell has a place of its own, and is found there', () => {
  for (const [sizes, width] of [[[32, 32, 32], 600], [[128, 64, 128], 330], [[384, 384], 330], [[7], 10], [[1, 1], 5000]]) {
    const layout = layOut(sizes, width, 30);
    const seen = new Set();
    sizes.forEach((n, row) => {
      for (let expert = 0; expert < n; expert++) {
        const { x, y } = cellPlace(layout, { row, expert });
        assert.ok(x >= 30 && x + layout.cell <= layout.width && y + layout.cell <= layout.height);
        seen.add(`${x},${y}`);
        assert.deepEqual(cellAt(layout, x + layout.cell / 2, y + layout.cell / 2), { row, expert });
      }
    });
    assert.equal(seen.size, sizes.reduce((a, b) => a + b));
    if (width > 100) assert.ok(layout.width <= width);
    assert.equal(cellAt(layout, 3, 3), null);
    assert.equal(cellAt(layout, 40, 99999), null);
  }
});

test('keys reach every cell, and stay on the map', () => {
  for (const [sizes, width] of [[[32, 32, 32], 600], [[100, 60, 100], 330], [[5], 40]]) {
    const layout = layOut(sizes, width, 30);
    let c = { row: 0, expert: 0 };
    const seen = new Set();
    for (let i = 0; i < sizes.reduce((a, b) => a + b); i++) {
      seen.add(`${c.row}:${c.expert}`);
      c = moveCursor(layout, c, 'ArrowRight');
    }
    assert.equal(seen.size, sizes.reduce((a, b) => a + b));
    assert.deepEqual(moveCursor(layout, c, 'ArrowRight'), c);
    for (let i = 0; i < 200; i++)
      for (const key of ['ArrowUp', 'ArrowLeft', 'ArrowDown', 'ArrowDown', 'PageUp', 'PageDown', 'Home', 'End']) {
        c = moveCursor(layout, c, key, i % 3 === 0);
        assert.ok(c.row >= 0 && c.row < sizes.length && c.expert >= 0 && c.expert < sizes[c.row]);
      }
    assert.deepEqual(moveCursor(layout, c, 'Home', true), { row: 0, expert: 0 });
  }
  assert.equal(moveCursor(layOut([4], 100, 30), { row: 0, expert: 0 }, 'x'), null);
  const two = layOut([100, 100], 330, 30);
  assert.deepEqual(moveCursor(two, moveCursor(two, { row: 0, expert: 80 }, 'ArrowDown'), 'ArrowUp'), { row: 0, expert: 80 });
});

test('the ledger adds up', () => {
  const rows = rowsOf({ budget_bytes: 100, rows: [{ name: 'a', bytes: 30 }, { name: 'none', bytes: 0 }, { name: 'b', bytes: 50 }] });
  assert.deepEqual(rows.map((r) => [r.name, r.bytes]), [['b', 50], ['a', 30], ['not used', 20]]);
});

test('sessions in words', () => {
  const slot = { is_processing: true, state: 'prompt', n_prompt_tokens: 2000, n_prompt_tokens_processed: 512, n_tokens: 512, n_decoded: 0 };
  assert.equal(stateOf(slot), 'reading its prompt, 512 of 2,000 tokens');
  assert.equal(stateOf({ ...slot, state: 'answer', n_decoded: 3 }), 'answering, 3 tokens so far');
  assert.equal(stateOf({ is_processing: false, n_tokens: 0 }), 'free');
  const rows = prefixesOf({ engine: {}, server: { prompt_tokens: 200, prompt_tokens_reused: 150, jobs_finished: 2, queued: 0 } });
  assert.equal(plain(rows[1][1]), '150 (75 %)');
});
