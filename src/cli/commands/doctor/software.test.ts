import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { findLibrary, isSupportedNode } from './software.js';

describe('Software', () => {
  it('Node is supported from 20.19 on', () => {
    assert.equal(isSupportedNode('20.18.3'), false);
    assert.equal(isSupportedNode('20.19.0'), true);
    assert.equal(isSupportedNode('22.0.0'), true);
    assert.equal(isSupportedNode('18.20.0'), false);
  });

  it('libraries are found with and without a version, and not by a longer name', (context) => {
    const folder = mkdtempSync(join(tmpdir(), 'verbena-lib-'));
    context.after(() => rmSync(folder, { recursive: true }));
    writeFileSync(join(folder, 'libucp.so.0'), '');
    writeFileSync(join(folder, 'libopenblas64.so'), '');
    assert.equal(findLibrary('libucp', ['/nonexistent', folder]), join(folder, 'libucp.so.0'));
    assert.equal(findLibrary('libopenblas', [folder]), undefined);
  });
});
