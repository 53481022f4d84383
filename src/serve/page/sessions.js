// Who is served, and what of the prompts was known before.
import { byId, h, setText } from './dom.js';
import { bytes, count, percent } from './format.js';

const STATES = { idle: 'at rest', prompt: 'reading its prompt', answer: 'answering', ending: 'ending' };

// What a session is doing, in words. Pure.
export function stateOf(slot) {
  if (!slot.is_processing) return slot.n_tokens > 0 ? 'at rest, kept for its next turn' : 'free';
  if (slot.state === 'prompt' && slot.n_prompt_tokens > 0)
    return `reading its prompt, ${count(slot.n_prompt_tokens_processed)} of ${count(slot.n_prompt_tokens)} tokens`;
  if (slot.state === 'answer') return `answering, ${count(slot.n_decoded)} tokens so far`;
  return STATES[slot.state] ?? slot.state;
}

// Rows of figures about prefixes: [[name, value]]. The server may know more or less of them. Pure.
export function prefixesOf(stats) {
  const server = stats.server ?? {};
  const p = { ...stats.engine, ...stats.prefixes };
  const rows = [];
  const asked = server.prompt_tokens ?? 0;
  rows.push(['Prompt tokens asked for', count(asked)]);
  rows.push(['known before, not computed again', asked ? `${count(server.prompt_tokens_reused)} (${percent(server.prompt_tokens_reused / asked)})` : '0']);
  if (p.prefix_nodes !== undefined) rows.push(['Runs of tokens kept', count(p.prefix_nodes)]);
  if (p.prefix_memory_limit > 0) rows.push(['in memory', `${bytes(p.prefix_memory_bytes)} of ${bytes(p.prefix_memory_limit)}`]);
  if (p.prefix_disk_limit > 0) rows.push(['on disk', `${bytes(p.prefix_disk_bytes)} of ${bytes(p.prefix_disk_limit)}`]);
  if (p.prefix_refused > 0) rows.push(['damaged or foreign, refused', count(p.prefix_refused)]);
  rows.push(['Answers finished', count(server.jobs_finished)]);
  if (server.jobs_cancelled) rows.push(['given up by their clients', count(server.jobs_cancelled)]);
  rows.push(['Waiting in the queue', count(server.queued)]);
  return rows;
}

export class Sessions {
  #rows = [];

  update(stats) {
    const slots = stats.slots ?? [];
    const body = byId('sessions-rows');
    while (this.#rows.length > slots.length) this.#rows.pop().root.remove();
    while (this.#rows.length < slots.length) {
      const row = newRow();
      this.#rows.push(row);
      body.append(row.root);
    }
    slots.forEach((slot, i) => fill(this.#rows[i], slot));
    const rows = prefixesOf(stats);
    const list = byId('prefixes');
    if (list.children.length !== rows.length * 2) list.replaceChildren(...rows.flatMap(() => [h('dt'), h('dd')]));
    rows.forEach(([name, value], i) => {
      setText(list.children[2 * i], name);
      setText(list.children[2 * i + 1], value);
    });
  }
}

function newRow() {
  const name = h('th', { scope: 'row' });
  const state = h('span', { class: 'state' });
  const known = h('span', { class: 'known' });
  const fresh = h('span', { class: 'fresh' });
  const tokens = h('td', { class: 'number' });
  const root = h('tr', {}, name, h('td', {}, state, h('span', { class: 'fill', 'aria-hidden': 'true' }, known, fresh)), tokens);
  return { root, name, state, known, fresh, tokens };
}

function fill(row, slot) {
  setText(row.name, String(slot.id));
  setText(row.state, stateOf(slot));
  row.root.dataset.busy = String(Boolean(slot.is_processing));
  setText(row.tokens, `${count(slot.n_tokens)} of ${count(slot.n_ctx)}`);
  const known = slot.is_processing ? Math.min(slot.n_prompt_tokens_cache, slot.n_tokens) : slot.n_tokens;
  row.known.style.width = `${(100 * known) / slot.n_ctx}%`;
  row.fresh.style.width = `${(100 * (slot.n_tokens - known)) / slot.n_ctx}%`;
}
