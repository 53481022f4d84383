// What the browser's tests and the pictures share: the real program with the bundled model, and Chromium.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const { SLUICE_BIN, SLUICE_SOURCE, CHROMIUM = '/usr/bin/chromium' } = process.env;

export function launch() {
  return chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'] });
}

// { url, stop() }; the words are options of `sluice serve`.
export async function serve(...words) {
  const env = { ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('SLUICE_'))), SLUICE_NO_USAGE: '1' };
  const child = spawn(SLUICE_BIN, ['serve', '-m', join(SLUICE_SOURCE, 'models/demo.gguf'), '--port', '0', ...words], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  child.stderr.on('data', (d) => { said += d; });
  const ended = new Promise((resolve) => child.on('exit', (code) => resolve(code)));
  const url = await new Promise((resolve, reject) => {
    child.stdout.once('data', (d) => resolve(String(d).trim()));
    ended.then(() => reject(new Error(said)));
  });
  return {
    url,
    async stop() {
      child.kill('SIGTERM');
      assert.equal(await ended, 0, said);
    },
  };
}
