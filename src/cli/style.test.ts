import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { columns, plain, styleFor } from './style.js';

describe('Style', () => {
  it('is plain without a terminal and with NO_COLOR, whatever else is set', () => {
    assert.equal(styleFor({}, {}).red('x'), 'x');
    assert.equal(styleFor({ isTTY: true }, { NO_COLOR: '1', FORCE_COLOR: '1' }).red('x'), 'x');
    assert.equal(styleFor({ isTTY: true }, { TERM: 'dumb' }).red('x'), 'x');
  });

  it('paints on a terminal, and does not count what it added', () => {
    const style = styleFor({ isTTY: true }, { TERM: 'xterm' });
    const text = style.bold(style.red('abc'));
    assert.notEqual(text, 'abc');
    assert.equal(plain(text), 'abc');
    assert.equal(columns(text), 3);
    assert.equal(styleFor({}, { FORCE_COLOR: '1' }).enabled, true);
  });
});
