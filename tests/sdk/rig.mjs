// Starts the real program and looks at its metrics. SLUICE_BIN names the program, SLUICE_TOOLS_MODEL the bundled model
// with a chat template that knows tools (run.py makes it).
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export const KEY = 'sk-sluice-test';
const { SLUICE_BIN, SLUICE_TOOLS_MODEL } = process.env;

// A server that asks for KEY. With `slow` a prompt takes long enough to be left in their middle.
export const serve = (...words) => serveModel(SLUICE_BIN, SLUICE_TOOLS_MODEL, ...words);

export async function serveModel(program, model, ...words) {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-sdk-'));
  await writeFile(join(folder, 'keys'), `# the tests' key\n${KEY}\n`);
  const env = { ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('SLUICE_'))), SLUICE_NO_USAGE: '1', SLUICE_ALIAS: 'demo' };
  const child = spawn(program, ['serve', '-m', model, '--port', '0', '--api-key-file', join(folder, 'keys'), ...words],
    { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  child.stderr.on('data', (d) => { said += d; });
  const ended = new Promise((resolve) => child.on('exit', resolve));
  const url = await new Promise((resolve, reject) => {
    child.stdout.once('data', (d) => resolve(String(d).trim()));
    ended.then((code) => reject(new Error(`ended with ${code}: ${said}`)));
  });
  const server = {
    url,
    async metrics() {
      const text = await (await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${KEY}` } })).text();
      return Object.fromEntries([...text.matchAll(/^sluice_(\w+) (\S+)$/gm)].map(([, name, value]) => [name, Number(value)]));
    },
    async until(what, good) {
      const end = Date.now() + 60000;
      for (;;) {
        const m = await server.metrics();
        if (good(m)) return m;
        assert.ok(Date.now() < end, `${what} did not come: ${JSON.stringify(m)}`);
        await sleep(10);
      }
    },
    async stop() {
      child.kill('SIGTERM');
      assert.equal(await ended, 0, said);
      await rm(folder, { recursive: true });
    },
  };
  while ((await fetch(`${url}/health`)).status !== 200) await sleep(10);
  return server;
}

export const slow = ['--threads', '1', '--chunk', '2'];
export const longText = 'It was the best of times, it was the worst of times. '.repeat(62);

// What `leave` begins is given up in its middle: its job ends early, and the session works for others.
export async function leftAlone(server, { begin, inPrompt }) {
  const before = await server.metrics();
  const leave = await begin();
  if (inPrompt) await server.until('a prompt at work', (m) => m.sessions_busy === 1 && m.prefill_tokens_total > before.prefill_tokens_total);
  await leave();
  const after = await server.until('the end of the job', (m) => m.jobs_cancelled_total === before.jobs_cancelled_total + 1 && m.sessions_busy === 0);
  assert.equal(after.jobs_finished_total, before.jobs_finished_total);
  if (inPrompt) {
    assert.equal(after.generated_tokens_total, before.generated_tokens_total);
    assert.ok(after.prefill_tokens_total - before.prefill_tokens_total < 700, 'the prompt was computed to its end');
  } else {
    assert.ok(after.generated_tokens_total - before.generated_tokens_total < 700, 'the answer was computed to its end');
  }
}

export async function rejected(promise, type, status) {
  let got;
  await assert.rejects(promise, (e) => { got = e; return true; });
  assert.ok(got instanceof type, `${got?.constructor?.name}: ${got?.message}`);
  if (status) assert.equal(got.status, status);
  return got;
}

export const weather = {
  name: 'weather',
  description: 'The weather of a place.',
  schema: {
    type: 'object',
    properties: { place: { enum: ['Verona', 'Elsinore', 'Dunsinane'] }, days: { type: 'integer' }, unit: { type: 'string', enum: ['C', 'F'] } },
    required: ['place', 'unit'],
    additionalProperties: false,
  },
};

export function isWeather(value) {
  assert.ok(weather.schema.properties.place.enum.includes(value.place), JSON.stringify(value));
  assert.ok(['C', 'F'].includes(value.unit), JSON.stringify(value));
  for (const key of Object.keys(value)) assert.ok(key in weather.schema.properties, key);
  if ('days' in value) assert.ok(Number.isInteger(value.days));
}
