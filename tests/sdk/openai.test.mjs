// Chat completions and completions with OpenAI's client.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { KEY, isWeather, leftAlone, longText, rejected, serve, slow, weather } from './rig.mjs';

const open = (server, more = {}) => new OpenAI({ baseURL: `${server.url}/v1`, apiKey: KEY, maxRetries: 0, timeout: 60000, ...more });
const say = (content, more = {}) => ({ model: 'demo', messages: [{ role: 'user', content }], max_completion_tokens: 12, seed: 7, ...more });
const tools = [{ type: 'function', function: { name: weather.name, description: weather.description, parameters: weather.schema, strict: true } }];
const forced = { type: 'function', function: { name: weather.name } };

async function all(stream) {
  const chunks = [];
  for await (const c of stream) chunks.push(c);
  return chunks;
}

describe('chat completions', () => {
  let server, client;
  before(async () => { server = await serve('--sessions', '2'); client = open(server); });
  after(() => server.stop());

  test('models', async () => {
    assert.deepEqual((await client.models.list()).data.map((m) => m.id), ['demo']);
    const one = await client.models.retrieve('demo');
    assert.equal(one.object, 'model');
    const e = await rejected(client.models.retrieve('nowhere/model'), OpenAI.NotFoundError, 404);
    assert.equal(e.code, 'model_not_found');
    assert.match(e.message, /nowhere\/model/);
  });

  test('plain, streamed and through the helper: the same answer', async () => {
    const { data, response } = await client.chat.completions.create(say('It was the best of times')).withResponse();
    assert.equal(response.status, 200);
    assert.equal(data.object, 'chat.completion');
    assert.equal(data.model, 'demo');
    const [choice] = data.choices;
    assert.equal(choice.finish_reason, 'length');
    assert.equal(choice.message.role, 'assistant');
    assert.equal(data.usage.completion_tokens, 12);

    const chunks = await all(await client.chat.completions.create({ ...say('It was the best of times'), stream: true, stream_options: { include_usage: true } }));
    assert.equal(chunks.map((c) => c.choices[0]?.delta.content ?? '').join(''), choice.message.content);
    assert.deepEqual(new Set(chunks.map((c) => c.id)).size, 1);
    assert.equal(chunks.at(-2).choices[0].finish_reason, 'length');
    assert.equal(chunks.at(-1).usage.total_tokens, data.usage.total_tokens);
    assert.equal(chunks.at(-1).usage.prompt_tokens_details.cached_tokens, data.usage.prompt_tokens - 1);

    let text = '';
    const helper = client.chat.completions.stream({ ...say('It was the best of times'), stream_options: { include_usage: true } })
      .on('content', (delta) => { text += delta; });
    const final = await helper.finalChatCompletion();
    assert.equal(text, choice.message.content);
    assert.equal(final.choices[0].message.content, text);
    assert.equal((await helper.totalUsage()).completion_tokens, 12);
  });

  test('stop texts, probabilities, what came before', async () => {
    const whole = (await client.chat.completions.create(say('The sea was', { max_completion_tokens: 30 }))).choices[0].message.content;
    const stop = whole.slice(whole.length / 2, whole.length / 2 + 4);
    const cut = (await client.chat.completions.create(say('The sea was', { max_completion_tokens: 30, stop: [stop] }))).choices[0];
    assert.equal(cut.message.content, whole.slice(0, whole.indexOf(stop)));
    assert.equal(cut.finish_reason, 'stop');

    const runner = client.chat.completions.stream(say('It was', { logprobs: true, top_logprobs: 2 }));
    const [choice] = (await runner.finalChatCompletion()).choices;
    assert.equal(choice.logprobs.content.length, 12);
    assert.equal(choice.logprobs.content[0].top_logprobs.length, 2);

    const messages = [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: [{ type: 'text', text: 'Hello' }] }];
    const first = await client.chat.completions.create({ ...say(''), messages });
    messages.push(first.choices[0].message, { role: 'user', content: 'And then?' });
    const second = await client.chat.completions.create({ ...say(''), messages });
    assert.ok(second.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens + 11);
  });

  test('completions', async () => {
    const body = { model: 'demo', prompt: 'It was the best', max_tokens: 6, seed: 3 };
    const plain = await client.completions.create(body);
    const chunks = await all(await client.completions.create({ ...body, stream: true }));
    assert.equal(chunks.map((c) => c.choices[0]?.text ?? '').join(''), plain.choices[0].text);
  });

  test('tools that the model may use', async () => {
    for (const tool_choice of [undefined, 'auto', 'none']) {
      const answer = await client.chat.completions.create(say('Hello', { tools, tool_choice, parallel_tool_calls: false }));
      assert.equal(answer.choices[0].message.tool_calls, undefined);
    }
  });
});

describe('answers that must have a form', () => {
  let server, client;
  before(async () => { server = await serve(); client = open(server); });
  after(() => server.stop());

  test('a call that was asked for, its result, and the answer', async () => {
    for (const tool_choice of [forced, 'required']) {
      const messages = [{ role: 'user', content: 'What is the weather?' }];
      const body = { model: 'demo', tools, tool_choice, seed: 5, max_completion_tokens: 200 };
      const [choice] = (await client.chat.completions.create({ ...body, messages })).choices;
      assert.equal(choice.finish_reason, tool_choice === 'required' ? 'tool_calls' : choice.finish_reason);
      const [call] = choice.message.tool_calls;
      assert.equal(call.function.name, 'weather');
      isWeather(JSON.parse(call.function.arguments));
      messages.push(choice.message, { role: 'tool', tool_call_id: call.id, content: 'rain' });
      const next = await client.chat.completions.create({ ...body, messages, tool_choice: 'none', max_completion_tokens: 8 });
      assert.ok(next.choices[0].message.content.length > 0);
    }
  });

  test('a call in a stream', async () => {
    const plain = await client.chat.completions.create(say('Weather?', { tools, tool_choice: forced, max_completion_tokens: 200 }));
    const seen = [];
    const runner = client.chat.completions.stream(say('Weather?', { tools, tool_choice: forced, max_completion_tokens: 200 }))
      .on('tool_calls.function.arguments.delta', (e) => seen.push(e.arguments_delta));
    const [choice] = (await runner.finalChatCompletion()).choices;
    assert.deepEqual(choice.message.tool_calls[0].function.arguments, plain.choices[0].message.tool_calls[0].function.arguments);
    assert.equal(seen.join(''), choice.message.tool_calls[0].function.arguments);
    isWeather(choice.message.tool_calls[0].function.parsed_arguments);
  });

  test('one of several tools, with schemas that refer to themselves', async () => {
    const list = { type: 'object', properties: { next: { anyOf: [{ $ref: '#' }, { type: 'null' }] }, kind: { $ref: '#/$defs/kind' } }, required: ['next', 'kind'], additionalProperties: false,
      $defs: { kind: { enum: ['comedy', 'tragedy'] } } };
    const both = ['first', 'second'].map((name) => ({ type: 'function', function: { name, parameters: list } }));
    const [choice] = (await client.chat.completions.create(say('A list?', { tools: both, tool_choice: 'required', max_completion_tokens: 600, temperature: 0 }))).choices;
    assert.ok(['first', 'second'].includes(choice.message.tool_calls?.[0].function.name), JSON.stringify(choice));
    for (let at = JSON.parse(choice.message.tool_calls[0].function.arguments); at; at = at.next) assert.ok(['comedy', 'tragedy'].includes(at.kind));
  });

  test('runTools calls the function', async () => {
    const got = [];
    const runner = client.chat.completions.runTools({
      ...say('Weather?', { max_completion_tokens: 200 }),
      tools: [{ type: 'function', function: { name: 'weather', description: 'The weather.', parameters: weather.schema, parse: JSON.parse, function: (a) => { got.push(a); return 'rain'; } } }],
      tool_choice: forced,
    });
    await runner.done();
    assert.equal(got.length, 1);
    isWeather(got[0]);
  });

  test('JSON of a schema', async () => {
    const Play = z.object({ title: z.enum(['Hamlet', 'Macbeth']), acts: z.number().int(), deaths: z.array(z.enum(['poison', 'sword'])).max(3), comedy: z.boolean() });
    for (let seed = 1; seed < 4; seed++) {
      const body = say('A play, please.', { seed, max_completion_tokens: 500, response_format: zodResponseFormat(Play, 'play') });
      const done = await client.chat.completions.parse(body);
      assert.ok(Play.safeParse(done.choices[0].message.parsed).success, done.choices[0].message.content);
      const streamed = await client.chat.completions.stream(body).finalChatCompletion();
      assert.deepEqual(streamed.choices[0].message.parsed, done.choices[0].message.parsed);
    }
    const e = await rejected(client.chat.completions.create(say('x', { response_format: { type: 'json_schema', json_schema: { name: 'p', schema: { type: 'string', format: 'date' } } } })),
      OpenAI.BadRequestError, 400);
    assert.match(e.message, /format/);
    assert.equal(e.param, 'response_format');
  });

  test('any JSON object', async () => {
    const done = await client.chat.completions.create(say('JSON, please.', { max_completion_tokens: 400, response_format: { type: 'json_object' } }));
    if (done.choices[0].finish_reason === 'stop') assert.equal(typeof JSON.parse(done.choices[0].message.content), 'object');
    else assert.match(done.choices[0].message.content, /^\s*{/);
  });
});

describe('going away', () => {
  let server, client;
  before(async () => { server = await serve(...slow); client = open(server); });
  after(() => server.stop());

  test('in the middle of an answer', async () => {
    await leftAlone(server, {
      async begin() {
        const stream = await client.chat.completions.create(say('It was', { stream: true, max_completion_tokens: 900 }));
        let n = 0;
        for await (const _ of stream) if (++n === 5) break; // leaving the loop aborts the request
        return () => {};
      },
    });
    await leftAlone(server, {
      async begin() {
        const helper = client.chat.completions.stream(say('It was so', { max_completion_tokens: 900 }));
        const ended = rejected(helper.done(), OpenAI.APIUserAbortError);
        await new Promise((resolve) => { helper.once('content', resolve); });
        return () => { helper.abort(); return ended; };
      },
    });
  });

  test('in the middle of a prompt', async () => {
    for (const stream of [false, true]) {
      await leftAlone(server, {
        inPrompt: true,
        begin() {
          const controller = new AbortController();
          const answer = client.chat.completions.create(say(`${stream}. ${longText}`, { stream }), { signal: controller.signal })
            .then((got) => (stream ? all(got) : got));
          if (!stream) return () => { controller.abort(); return rejected(answer, OpenAI.APIUserAbortError); };
          return () => { controller.abort(); return answer.catch((e) => assert.ok(e instanceof OpenAI.APIUserAbortError)); };
        },
      });
    }
    const next = await client.chat.completions.create(say('Hello'));
    assert.equal(next.usage.completion_tokens, 12);
  });

  test('after the time that the client allows', async () => {
    await leftAlone(server, { begin: async () => { await rejected(open(server, { timeout: 300 }).chat.completions.create(say('Slow', { max_completion_tokens: 900 })), OpenAI.APIConnectionTimeoutError); return () => {}; } });
  });
});

describe('refusals', () => {
  let server, client;
  before(async () => { server = await serve(...slow, '--sessions', '1', '--queue', '1'); client = open(server); });
  after(() => server.stop());

  test('no key, a wrong key', async () => {
    const e = await rejected(open(server, { apiKey: 'sk-wrong' }).chat.completions.create(say('x')), OpenAI.AuthenticationError, 401);
    assert.equal(e.type, 'authentication_error');
    await rejected(open(server, { apiKey: 'sk-wrong' }).models.list(), OpenAI.AuthenticationError, 401);
  });

  test('the parameter is named', async () => {
    for (const [more, param] of [[{ temperature: -1 }, 'temperature'], [{ n: 9 }, 'n'], [{ wizardry: 1 }, 'wizardry'], [{ messages: [] }, 'messages'], [{ max_completion_tokens: 0 }, 'max_completion_tokens'],
      [{ tools: [{ type: 'web_search' }] }, 'tools'], [{ response_format: { type: 'yaml' } }, 'response_format'], [{ tools, tool_choice: { type: 'function', function: { name: 'nobody' } } }, 'tool_choice']]) {
      const e = await rejected(client.chat.completions.create(say('x', more)), OpenAI.BadRequestError, 400);
      assert.equal(e.param, param);
      assert.equal(e.type, 'invalid_request_error');
    }
    const e = await rejected(client.chat.completions.create(say('word '.repeat(2000), { stream: true })), OpenAI.BadRequestError, 400);
    assert.equal(e.code, 'context_length_exceeded');
  });

  test('a full queue, and a client that comes back', async () => {
    const long = () => client.chat.completions.create(say('It was', { stream: true, max_completion_tokens: 900 }));
    const [a, b] = [await long(), await server.until('a job', (m) => m.sessions_busy === 1) && await long()];
    await server.until('a queue', (m) => m.queue_length === 1);
    const e = await rejected(long(), OpenAI.RateLimitError, 429);
    assert.ok(Number(e.headers.get('retry-after')) > 0);
    const patient = open(server, { maxRetries: 3 }).chat.completions.create(say('Hello'));
    await server.until('the refusal', (m) => m.requests_overloaded_total >= 2);
    for (const stream of [a, b]) stream.controller.abort();
    assert.equal((await patient).usage.completion_tokens, 12);
  });
});
