// Numbers as people read them. Pure.

const narrow = '\u202f'; // no-break space between a number and its unit

export function count(n) {
  if (!Number.isFinite(n)) return '–';
  return Math.round(n).toLocaleString('en-US');
}

export function decimals(n, digits) {
  return Number.isFinite(n) ? n.toFixed(digits) : '–';
}

// GiB are 2^30 bytes, as the program prints them; three digits.
export function bytes(n) {
  if (!Number.isFinite(n)) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  let v = Math.abs(n);
  while (v >= 999.5 && i + 1 < units.length) {
    v /= 1024;
    i++;
  }
  const text = i === 0 || v >= 99.95 ? String(Math.round(v)) : v.toFixed(v >= 9.995 ? 1 : 2);
  return (n < 0 ? '−' : '') + text + narrow + units[i];
}

export function percent(share, digits = 0) {
  if (!Number.isFinite(share)) return '–';
  const p = share * 100;
  // What is not quite all or nothing must not read as if it were.
  if (digits === 0 && p > 0 && p < 0.5) return `<1${narrow}%`;
  if (digits === 0 && p < 100 && p >= 99.5) return `>99${narrow}%`;
  return p.toFixed(digits) + narrow + '%';
}

export function seconds(ms) {
  if (!Number.isFinite(ms)) return '–';
  const s = ms / 1000;
  if (s < 0.0995) return Math.round(ms) + narrow + 'ms';
  if (s < 9.995) return s.toFixed(2) + narrow + 's';
  if (s < 59.95) return s.toFixed(1) + narrow + 's';
  const whole = Math.round(s);
  if (whole < 3600) return `${Math.floor(whole / 60)}${narrow}min ${whole % 60}${narrow}s`;
  return `${Math.floor(whole / 3600)}${narrow}h ${Math.floor((whole % 3600) / 60)}${narrow}min`;
}

export function rate(perSecond) {
  if (!Number.isFinite(perSecond)) return '–';
  return perSecond >= 99.95 ? count(perSecond) : perSecond.toFixed(perSecond >= 9.995 ? 1 : 2);
}

export function plural(n, one, many) {
  return `${count(n)} ${n === 1 ? one : many}`;
}
