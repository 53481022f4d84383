// The server's endpoints. Keeps the API key; knows nothing of the page.
import { SseReader } from './sse.js';

const KEY = 'sluice.key';
let key = '';
try {
  key = globalThis.localStorage?.getItem(KEY) ?? '';
} catch {
  // storage may be forbidden; the key then lasts as long as the page
}

export function apiKey() {
  return key;
}

export function setApiKey(text) {
  key = text.trim();
  try {
    if (key) localStorage.setItem(KEY, key);
    else localStorage.removeItem(KEY);
  } catch {
    // see above
  }
}

export class ApiError extends Error {
  constructor(status, message, retrySeconds = 0) {
    super(message);
    this.status = status; // 0: the server was not reached
    this.retrySeconds = retrySeconds;
  }
}

async function request(path, options = {}) {
  const headers = { ...options.headers };
  if (key) headers.Authorization = `Bearer ${key}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: 'no-store', credentials: 'omit' });
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    throw new ApiError(0, 'The server does not answer.');
  }
  if (response.ok) return response;
  let message = `The server answered with status ${response.status}.`;
  try {
    const body = await response.json();
    if (typeof body?.error?.message === 'string') message = body.error.message;
  } catch {
    // no JSON: the status says it
  }
  throw new ApiError(response.status, message, Number(response.headers.get('Retry-After')) || 0);
}

export async function getJson(path, signal) {
  return (await request(path, { signal })).json();
}

// Like getJson for /health: its answer while the model loads is no error.
export async function health(signal) {
  let response;
  try {
    response = await fetch('/health', { signal, cache: 'no-store' });
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    return { status: 'unreachable' };
  }
  try {
    return await response.json();
  } catch {
    return { status: 'unreachable' };
  }
}

// One answer of /v1/chat/completions as it comes. on: { reasoning(text), text(text), progress(p) }, each optional.
// Returns { finish, usage, timings }; usage and timings may be missing.
export async function streamChat(body, on, signal) {
  const response = await request('/v1/chat/completions', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({
      ...body,
      stream: true,
      stream_options: { include_usage: true },
      return_progress: true,
    }),
    signal,
  });
  const end = { finish: null, usage: null, timings: null };
  const events = new SseReader();
  const text = new TextDecoder();
  const reader = response.body.getReader();
  let done = false;
  for (;;) {
    const piece = await reader.read();
    if (piece.done) break;
    for (const event of events.push(text.decode(piece.value, { stream: true }))) {
      if (event.data === '[DONE]') done = true;
      else take(JSON.parse(event.data), on, end);
    }
  }
  if (!done && !end.finish) throw new ApiError(0, 'The answer broke off: the server closed the connection.');
  return end;
}

function take(chunk, on, end) {
  if (chunk.error) throw new ApiError(chunk.error.code ?? 500, chunk.error.message ?? 'The answer failed.');
  if (chunk.usage) end.usage = chunk.usage;
  if (chunk.timings) end.timings = chunk.timings;
  if (chunk.prompt_progress) on.progress?.(chunk.prompt_progress);
  const choice = chunk.choices?.[0];
  if (!choice) return;
  if (choice.finish_reason) end.finish = choice.finish_reason;
  const { content, reasoning_content: reasoning } = choice.delta ?? {};
  if (reasoning) on.reasoning?.(reasoning);
  if (content) on.text?.(content);
}
