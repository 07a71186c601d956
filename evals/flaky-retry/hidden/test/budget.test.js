import assert from 'node:assert';
import test from 'node:test';
import { GaveUpError, TransientError } from '../src/errors.js';
import { Retrier } from '../src/retry.js';
import { syncStock } from '../src/sync.js';

const sleep = async () => {};
const three = () => new Retrier({ attempts: 3, baseDelay: 1, sleep });

// flaky fails the given number of times, then returns the value; calls counts how often it was asked.
function flaky(failures, value) {
  const operation = async () => {
    operation.calls += 1;
    if (operation.calls <= failures) throw new TransientError('connection dropped');
    return value;
  };
  operation.calls = 0;
  return operation;
}

test('every operation has its own attempts', async () => {
  const retrier = three();
  for (let n = 0; n < 5; n += 1) {
    assert.strictEqual(await retrier.run(flaky(2, n)), n);
  }
});

test('giving up does not spoil the next operation', async () => {
  const retrier = three();
  const dead = flaky(99);
  await assert.rejects(retrier.run(dead), (error) => error instanceof GaveUpError && error.attempts === 3);
  assert.strictEqual(dead.calls, 3);
  assert.strictEqual(await retrier.run(flaky(2, 'late')), 'late');
});

test('operations at the same time do not share attempts', async () => {
  const retrier = three();
  const operations = Array.from({ length: 6 }, (_, n) => flaky(2, n));
  const values = await Promise.all(operations.map((operation) => retrier.run(operation)));
  assert.deepStrictEqual(values, [0, 1, 2, 3, 4, 5]);
});

test('no operation is ever tried more than three times', async () => {
  const dead = Array.from({ length: 6 }, () => flaky(99));
  const retrier = three();
  await Promise.allSettled(dead.map((operation) => retrier.run(operation)));
  assert.deepStrictEqual(dead.map((operation) => operation.calls), [3, 3, 3, 3, 3, 3]);
});

test('a sync postpones only what failed three times', async () => {
  const asked = new Map();
  const warehouse = {
    async level(article) {
      asked.set(article, (asked.get(article) ?? 0) + 1);
      if (article === 'dead' || asked.get(article) < 3) throw new TransientError('busy');
      return 7;
    },
  };
  const articles = ['a', 'b', 'c', 'dead', 'd', 'e', 'f', 'g'];
  const result = await syncStock(articles, warehouse, { setLevel() {} }, { sleep });
  assert.deepStrictEqual(result, { copied: ['a', 'b', 'c', 'd', 'e', 'f', 'g'], postponed: ['dead'] });
  assert.deepStrictEqual([...asked.values()], articles.map(() => 3));
});
