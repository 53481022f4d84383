// The ledger: one bar that adds up to the budget, and its rows.
import { byId, h, setText } from './dom.js';
import { bytes, percent } from './format.js';

const TONES = 12;

// The rows by size, and what the budget leaves: together they are the budget. Pure.
export function rowsOf(ledger) {
  const rows = (ledger.rows ?? []).filter((r) => r.bytes > 0).map((r) => ({ ...r, free: false })).sort((a, b) => b.bytes - a.bytes);
  const sum = rows.reduce((n, r) => n + r.bytes, 0);
  if (ledger.budget_bytes > sum) rows.push({ name: 'not used', bytes: ledger.budget_bytes - sum, free: true });
  return rows;
}

export class Ledger {
  #shown = '';

  update(ledger, engine) {
    const key = JSON.stringify(ledger);
    if (key !== this.#shown) this.#rebuild(ledger);
    this.#shown = key;
    const peak = engine.resident_peak_bytes ? `, ${bytes(engine.resident_peak_bytes)} at most` : '';
    setText(byId('ledger-resident'), engine.resident_bytes ? `The process holds ${bytes(engine.resident_bytes)} now${peak}.` : '');
  }

  #rebuild(ledger) {
    const rows = rowsOf(ledger);
    const total = rows.reduce((n, r) => n + r.bytes, 0) || 1;
    const tone = (r, i) => (r.free ? 'free' : String(i % TONES));
    byId('ledger-bar').replaceChildren(...rows.map((r, i) => {
      const part = h('span', { 'data-tone': tone(r, i), title: `${r.name}: ${bytes(r.bytes)}` });
      part.style.flexGrow = r.bytes / total;
      return part;
    }));
    byId('ledger-rows').replaceChildren(...rows.map((r, i) => h('tr', {},
      h('th', { scope: 'row' }, h('span', { class: 'dot', 'data-tone': tone(r, i), 'aria-hidden': 'true' }), r.name),
      h('td', {}, bytes(r.bytes)),
      h('td', {}, percent(r.bytes / total)))));
    setText(byId('ledger-total'), bytes(total));
    const all = ledger.slots_all_bytes;
    setText(byId('ledger-budget'), `Budget ${bytes(ledger.budget_bytes)}` +
      (all ? `; every expert at once would take ${bytes(all)}, ${percent(ledger.slots_bytes / all)} of that is granted.` : '.'));
  }
}
