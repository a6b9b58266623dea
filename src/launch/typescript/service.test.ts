import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { askStripper, type StripService, serveStripper } from './service.js';

describe('the stripper of a launcher', () => {
  let service: StripService;
  before(async () => {
    service = await serveStripper();
  });
  after(() => service.close());

  it('gives a source back with blanks for types', async () => {
    const answer = await askStripper(service.name, { source: 'const größe: number = 1;\nexport { größe };\n', isModule: true });
    assert.deepEqual(answer, { code: 'const größe         = 1;\nexport { größe };\n' });
  });

  it('says where syntax cannot be stripped', async () => {
    const answer = await askStripper(service.name, { source: '\nenum Colour { Red }\n', isModule: true });
    assert.ok(answer && 'error' in answer);
    assert.equal(answer.error.startLine, 2);
    assert.match(answer.error.message, /enum/);
  });

  it('that is gone is no answer, so that who asks strips by himself', async () => {
    assert.equal(await askStripper(`${service.name}-gone`, { source: '', isModule: true }), undefined);
  });
});
