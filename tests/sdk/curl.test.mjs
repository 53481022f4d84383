// The server as curl sees it: what README and shell scripts do.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, test } from 'node:test';
import { KEY, leftAlone, longText, serve, slow } from './rig.mjs';

let server;
before(async () => { server = await serve(...slow); });
after(() => server.stop());

// Status, content type and body. curl's own failures reject, with its code.
function curl(path, body, ...words) {
  const args = ['-sS', '--max-time', '60', '-w', '\n%{http_code} %{content_type}', `${server.url}${path}`, ...words];
  if (!words.some((w) => w.startsWith('Authorization'))) args.push('-H', `Authorization: Bearer ${KEY}`);
  if (body !== undefined) args.push('-H', 'Content-Type: application/json', '--data-binary', '@-');
  return new Promise((resolve, reject) => {
    const child = execFile('curl', args, { maxBuffer: 1 << 24 }, (error, out) => {
      if (error) return reject(error);
      const [, text, status, type] = /^([^]*)\n(\d+) (.*)$/.exec(out);
      resolve({ status: Number(status), type, text });
    });
    child.stdin.on('error', () => {});
    child.stdin.end(body === undefined ? '' : JSON.stringify(body));
  });
}

const chat = (text, more = {}) => ({ messages: [{ role: 'user', content: text }], max_tokens: 6, seed: 1, ...more });

test('an answer, and the same as a stream', async () => {
  const plain = await curl('/v1/chat/completions', chat('Hello'));
  assert.equal(plain.status, 200);
  assert.equal(plain.type, 'application/json');
  const { content } = JSON.parse(plain.text).choices[0].message;
  for (const words of [['-N'], ['--http1.0'], ['-H', 'Expect: 100-continue'], ['--compressed']]) {
    const got = await curl('/v1/chat/completions', chat('Hello', { stream: true }), ...words);
    assert.equal(got.status, 200);
    assert.match(got.type, /^text\/event-stream/);
    const lines = got.text.split('\n\n').filter(Boolean);
    assert.equal(lines.pop(), 'data: [DONE]');
    for (const line of lines) assert.match(line, /^data: {.*}$/);
    assert.equal(lines.map((l) => JSON.parse(l.slice(6)).choices[0]?.delta.content ?? '').join(''), content);
  }
  const events = (await curl('/v1/messages', chat('Hello', { stream: true }), '-N')).text.split('\n\n').filter(Boolean);
  for (const e of events) assert.match(e, /^event: (\w+)\ndata: {"type": ?"\1".*}$/);
});

test('what needs no model, and refusals', async () => {
  assert.equal((await curl('/health')).text, '{"status":"ok"}');
  assert.match((await curl('/metrics')).text, /^sluice_first_token_seconds_bucket\{le="\+Inf"\} \d+$/m);
  for (const [path, body, words, status, word] of [
    ['/v1/chat/completions', chat('x'), ['-H', 'Authorization: Bearer wrong'], 401, 'key'],
    ['/v1/messages', chat('x'), ['-H', 'Authorization:'], 401, 'authentication_error'],
    ['/v1/nothing', undefined, [], 404, '/v1/nothing'],
    ['/v1/models/nothing', undefined, [], 404, 'model_not_found'],
    ['/v1/chat/completions', undefined, [], 405, 'GET'],
    ['/v1/chat/completions', chat('x', { top_p: 3 }), [], 400, '"param":"top_p"'],
    ['/v1/chat/completions', chat('x'.repeat(9 << 20)), [], 413, '--max-body'],
  ]) {
    const got = await curl(path, body, ...words);
    assert.equal(got.status, status, path);
    assert.equal(got.type, 'application/json');
    assert.ok(got.text.replaceAll('": ', '":').includes(word), got.text);
    JSON.parse(got.text);
  }
});

test('curl that gives up, in an answer and in a prompt', async () => {
  await leftAlone(server, { begin: async () => { await assert.rejects(curl('/v1/chat/completions', chat('It was', { stream: true, max_tokens: 900 }), '--max-time', '0.4'), { code: 28 }); return () => {}; } });
  await leftAlone(server, { begin: async () => { await assert.rejects(curl('/v1/chat/completions', chat(longText), '--max-time', '0.4'), { code: 28 }); return () => {}; } });
});
