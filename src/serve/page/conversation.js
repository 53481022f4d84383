// Conversations as plain objects: { id, title, changed, messages }, where a message is { role: 'user', content } or
// { role: 'assistant', content, reasoning, ending, figures }. Pure but for the storage that it is given.

export const CONVERSATIONS_MAX = 50;
export const KEY = 'sluice.conversations';
const TITLE_MAX = 60;

export function newConversation(now = Date.now()) {
  return { id: `${now.toString(36)}-${Math.random().toString(36).slice(2, 8)}`, title: '', changed: now, messages: [] };
}

export function titleOf(text) {
  const line = text.trim().split('\n')[0].replace(/\s+/g, ' ');
  return line.length <= TITLE_MAX ? line : `${line.slice(0, TITLE_MAX - 1).trimEnd()}…`;
}

export function addUser(conversation, content, now = Date.now()) {
  conversation.messages.push({ role: 'user', content });
  touch(conversation, now);
}

// The message says something else now, and what came after it is gone.
export function editUser(conversation, index, content, now = Date.now()) {
  if (conversation.messages[index]?.role !== 'user') throw new RangeError('only a message of the user can be edited');
  conversation.messages.length = index;
  addUser(conversation, content, now);
}

// Drops what came after a message of the user, given by its own index or by that of its answer, which need not be there
// yet. False: no message of the user.
export function dropAnswer(conversation, index, now = Date.now()) {
  const at = conversation.messages[index]?.role === 'user' ? index + 1 : index;
  if (conversation.messages[at - 1]?.role !== 'user') return false;
  conversation.messages.length = at;
  touch(conversation, now);
  return true;
}

export function addAnswer(conversation, answer, now = Date.now()) {
  conversation.messages.push({ role: 'assistant', content: '', reasoning: '', ending: null, figures: null, ...answer });
  touch(conversation, now);
}

function touch(conversation, now) {
  conversation.changed = now;
  const first = conversation.messages.find((m) => m.role === 'user');
  conversation.title = first ? titleOf(first.content) : '';
}

// ---- what is sent ----

// Fields of the form that are numbers, with what the server accepts. Empty ones are left out: the server's defaults.
export const SAMPLING = {
  temperature: { min: 0, max: 5 },
  top_p: { min: 0, max: 1 },
  top_k: { min: 0, max: 100000, whole: true },
  min_p: { min: 0, max: 1 },
  repeat_penalty: { min: 0.01, max: 10 },
  max_tokens: { min: 1, max: 10000000, whole: true },
  seed: { min: 0, max: Number.MAX_SAFE_INTEGER, whole: true },
};

// What is wrong with the text of a field, or ''.
export function fieldError(name, text) {
  const rule = SAMPLING[name];
  if (text.trim() === '') return '';
  const value = Number(text);
  if (!Number.isFinite(value)) return 'not a number';
  if (rule.whole && !Number.isInteger(value)) return 'a whole number is needed';
  if (value < rule.min || value > rule.max) return `from ${rule.min} to ${rule.max}`;
  return '';
}

export function requestOf(conversation, settings, model) {
  const messages = [];
  for (const { role, content } of conversation.messages) {
    // Where an answer failed, two messages of the user follow each other, which many templates refuse.
    if (role === 'user' && messages.at(-1)?.role === 'user') messages.at(-1).content += `\n\n${content}`;
    else messages.push({ role, content });
  }
  const system = settings.system?.trim();
  if (system) messages.unshift({ role: 'system', content: system });
  const body = { model: model || 'default', messages };
  for (const name of Object.keys(SAMPLING)) {
    const text = String(settings[name] ?? '').trim();
    if (text !== '' && fieldError(name, text) === '') body[name] = Number(text);
  }
  if (settings.thinking === 'on' || settings.thinking === 'off') body.enable_thinking = settings.thinking === 'on';
  return body;
}

// ---- figures of an answer ----

// measured: { firstMs } as seen here; before, after: two answers of /api/stats, or null. Hits are those of all sessions
// in between, so they are left out if anybody else was served meanwhile.
export function figuresOf(end, measured, before, after) {
  const t = end?.timings ?? {};
  const usage = end?.usage ?? {};
  const prompt = usage.prompt_tokens ?? ((t.cache_n ?? 0) + (t.prompt_n ?? NaN));
  const figures = {
    firstMs: measured.firstMs ?? null,
    tokens: usage.completion_tokens ?? t.predicted_n ?? null,
    perSecond: t.predicted_per_second || null,
    prompt: Number.isFinite(prompt) ? prompt : null,
    cached: usage.prompt_tokens_details?.cached_tokens ?? t.cache_n ?? null,
    hits: null,
    readBytes: null,
  };
  const a = before?.engine, b = after?.engine;
  if (a && b && (after.server?.jobs_started ?? 0) - (before.server?.jobs_started ?? 0) <= 1) {
    const hits = b.hits - a.hits, misses = b.misses - a.misses;
    if (hits + misses > 0) figures.hits = hits / (hits + misses);
    if (b.read_bytes >= a.read_bytes) figures.readBytes = b.read_bytes - a.read_bytes;
  }
  return figures;
}

// ---- storage ----

function valid(c) {
  return c && typeof c.id === 'string' && Array.isArray(c.messages) &&
    c.messages.every((m) => (m?.role === 'user' || m?.role === 'assistant') && typeof m.content === 'string');
}

export function loadAll(storage) {
  return readAll(storage.getItem(KEY));
}

export function readAll(text) {
  try {
    const list = JSON.parse(text ?? '[]');
    return Array.isArray(list) ? list.filter(valid).slice(0, CONVERSATIONS_MAX) : [];
  } catch {
    return [];
  }
}

// Another tab may have kept something since: what it has and we do not know joins ours, what it has changed later
// replaces ours, but for the conversation that is open here. dropped: ids that were deleted here.
export function merge(mine, stored, open, dropped) {
  const byId = new Map(mine.map((c) => [c.id, c]));
  for (const c of stored) {
    const known = byId.get(c.id);
    if (dropped.has(c.id) || known === open && known) continue;
    if (!known || c.changed > known.changed) byId.set(c.id, c);
  }
  return [...byId.values()];
}

// The latest first; empty ones are not kept. If there is no room, the oldest ones go. False: nothing could be kept.
export function saveAll(storage, list) {
  let keep = list.filter((c) => c.messages.length).sort((a, b) => b.changed - a.changed).slice(0, CONVERSATIONS_MAX);
  for (;;) {
    try {
      storage.setItem(KEY, JSON.stringify(keep));
      return true;
    } catch {
      if (keep.length <= 1) return false;
      keep = keep.slice(0, Math.ceil(keep.length / 2));
    }
  }
}
