// The map's geometry and words: which expert is where. Pure.

export const TIERS = ['disk', 'loading', 'cache', 'pinned'];

// The server's answer with a number for each tier's letter. Layers without experts are left out.
export function readExperts(json) {
  const names = json.tiers ?? {};
  const number = {};
  for (const [letter, name] of Object.entries(names)) number[letter] = Math.max(0, TIERS.indexOf(name));
  const layers = (json.layers ?? []).map((l) => ({
    layer: l.layer,
    tiers: Uint8Array.from(l.tier, (letter) => number[letter] ?? 0),
    heat: Float32Array.from(l.heat ?? []),
  }));
  return { used: json.n_expert_used ?? 0, layers };
}

export function tally(picture) {
  const counts = [0, 0, 0, 0];
  for (const l of picture.layers) for (const t of l.tiers) counts[t]++;
  return counts;
}

// Heat at which a cell is as strong as it gets: what the hottest fiftieth reaches.
export function heatScale(picture) {
  const all = picture.layers.flatMap((l) => [...l.heat]).filter((h) => h > 0).sort((a, b) => a - b);
  return all.length ? Math.max(all[Math.floor(all.length * 0.98)] ?? all.at(-1), 1e-6) : 1;
}

// The square root, so that what is chosen now and then differs from what never is.
export function strength(heat, scale) {
  return heat > 0 ? Math.min(1, Math.sqrt(heat / scale)) : 0;
}

// Rows of cells that fit the width. A layer that is too long for one row takes several, of equal length.
// sizes: experts of each layer; label: pixels kept free on the left.
export function layOut(sizes, width, label, cellMin = 4, cellMax = 26) {
  const longest = Math.max(1, ...sizes);
  const room = Math.max(cellMin, width - label);
  let columns = longest;
  while (columns > 1 && room / columns < cellMin) columns = Math.ceil(columns / 2);
  const cell = Math.max(1, Math.min(cellMax, Math.floor(room / columns)));
  const between = longest > columns ? 5 : 0; // between layers that take several rows
  const tops = [];
  let y = 0;
  for (const n of sizes) {
    tops.push(y);
    y += Math.max(1, Math.ceil(n / columns)) * cell + between;
  }
  return { columns, cell, gap: cell >= 8 ? 2 : 1, tops, height: y - between, width: label + columns * cell, label, sizes };
}

export function cellAt(layout, x, y) {
  const column = Math.floor((x - layout.label) / layout.cell);
  if (x < layout.label || column >= layout.columns || y < 0) return null;
  let row = layout.tops.length - 1;
  while (row > 0 && layout.tops[row] > y) row--;
  const expert = Math.floor((y - layout.tops[row]) / layout.cell) * layout.columns + column;
  return expert < (layout.sizes[row] ?? 0) ? { row, expert } : null;
}

export function cellPlace(layout, { row, expert }) {
  return {
    x: layout.label + (expert % layout.columns) * layout.cell,
    y: layout.tops[row] + Math.floor(expert / layout.columns) * layout.cell,
  };
}

// Where a key moves the cursor; null: not a key of the map.
export function moveCursor(layout, cursor, key, ctrl = false) {
  const last = layout.sizes.length - 1;
  const at = (row, expert) => {
    const r = Math.min(last, Math.max(0, row));
    return { row: r, expert: Math.min(layout.sizes[r] - 1, Math.max(0, expert)) };
  };
  const { row, expert } = cursor;
  switch (key) {
    case 'ArrowLeft': return expert > 0 || row === 0 ? at(row, expert - 1) : at(row - 1, Infinity);
    case 'ArrowRight': return expert + 1 < layout.sizes[row] || row === last ? at(row, expert + 1) : at(row + 1, 0);
    case 'ArrowUp': return expert >= layout.columns ? at(row, expert - layout.columns) : row === 0 ? cursor : at(row - 1, lastRow(layout, row - 1) + (expert % layout.columns));
    case 'ArrowDown': return expert + layout.columns < layout.sizes[row] ? at(row, expert + layout.columns) : row === last ? cursor : at(row + 1, expert % layout.columns);
    case 'PageUp': return at(row - 8, expert);
    case 'PageDown': return at(row + 8, expert);
    case 'Home': return ctrl ? at(0, 0) : at(row, 0);
    case 'End': return ctrl ? at(last, Infinity) : at(row, Infinity);
    default: return null;
  }
}

function lastRow(layout, row) {
  return Math.floor((layout.sizes[row] - 1) / layout.columns) * layout.columns;
}

const WHERE = ['on disk', 'loading', 'in the cache', 'pinned in memory'];

// One sentence for the eye and the ear.
export function describe(picture, { row, expert }) {
  const l = picture.layers[row];
  const heat = l.heat[expert] ?? 0;
  let often = 'not chosen so far';
  if (heat > 0) {
    const usual = picture.used / l.tiers.length;
    const times = heat / usual;
    const compared = !(usual > 0) ? '' : times > 0.85 && times < 1.18 ? ', as often as the mean' : times >= 1 ? `, ${digits(times)} times the mean` : `, ${digits(times)} of the mean`;
    often = `chosen by ${digits(heat * 100)} % of tokens${compared}`;
  }
  return `Layer ${l.layer}, expert ${expert}: ${WHERE[l.tiers[expert]]}, ${often}`;
}

function digits(x) {
  return x >= 9.95 ? String(Math.round(x)) : x >= 0.095 ? x.toFixed(1) : x >= 0.005 ? x.toFixed(2) : '<0.01';
}
