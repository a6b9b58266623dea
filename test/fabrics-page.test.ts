/** The table of docs/fabrics.md is what is recorded, and what is recorded of the providers that work everywhere is what their devices say. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { type Capabilities, openDevice } from '../src/verbs/index.js';

interface Script {
  readRecord(): { readonly capabilities: Readonly<Record<string, Capabilities>> };
  pageWith(page: string, record: unknown): string;
  stable(capabilities: Capabilities): unknown;
}
const { readRecord, pageWith, stable } = (await import(new URL('../../scripts/fabrics.mjs', import.meta.url).href)) as Script;

test('the table of fabrics is up to date: node scripts/fabrics.mjs writes it', () => {
  const page = readFileSync(new URL('../../docs/fabrics.md', import.meta.url), 'utf8');
  assert.equal(pageWith(page, readRecord()), page);
});

for (const name of ['shm', 'sim', 'roce']) {
  test(`${name} has the capabilities that are recorded: node scripts/fabrics.mjs record ${name} records them`, async () => {
    using device = await openDevice(name);
    assert.deepEqual(stable(readRecord().capabilities[name]), stable(device.capabilities));
  });
}
