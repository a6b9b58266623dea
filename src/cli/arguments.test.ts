import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseArguments } from './arguments.js';
import type { OptionSpecs } from './command.js';

const OPTIONS: OptionSpecs = {
  op: { type: 'choice', choices: ['write', 'read', 'send'], default: 'write', summary: 'operation' },
  size: { type: 'size', default: 8, min: 1, max: 2 ** 30, summary: 'bytes' },
  rounds: { type: 'integer', short: 'n', min: 5, max: 50, summary: 'rounds' },
  rate: { type: 'number', summary: 'any number' },
  peer: { type: 'list', choices: ['ucx', 'uct', 'tcp'], default: [], summary: 'peers' },
  name: { type: 'string', summary: 'a name' },
  quiet: { type: 'flag', summary: 'say less' },
};

const parse = (...words: string[]) => parseArguments(words, OPTIONS);
const fails = (pattern: RegExp, ...words: string[]) =>
  assert.throws(() => parse(...words), { name: 'UsageError', message: pattern });

describe('Parsing the command line', () => {
  it('fills in defaults and leaves out what has none', () => {
    assert.deepEqual(parse().values, { op: 'write', size: 8, peer: [], quiet: false });
  });

  it('takes --name value, --name=value and -n value', () => {
    assert.equal(parse('--rounds', '7').values['rounds'], 7);
    assert.equal(parse('--rounds=7').values['rounds'], 7);
    assert.equal(parse('-n', '7').values['rounds'], 7);
  });

  it('reads sizes with units', () => {
    assert.equal(parse('--size', '4K').values['size'], 4096);
    assert.equal(parse('--size', '1MiB').values['size'], 2 ** 20);
    fails(/takes bytes.*got '4Q'/, '--size', '4Q');
    fails(/1 B to 1 GiB: got 2G/, '--size', '2G');
  });

  it('joins lists, drops repetitions and knows all', () => {
    assert.deepEqual(parse('--peer', 'ucx,tcp', '--peer', 'ucx').values['peer'], ['ucx', 'tcp']);
    assert.deepEqual(parse('--peer', 'all').values['peer'], ['ucx', 'uct', 'tcp']);
    fails(/cannot be 'ucxx'; did you mean 'ucx'\?/, '--peer', 'ucxx');
  });

  it('names the nearest option when one is unknown', () => {
    fails(/no option --sise; did you mean --size\?/, '--sise', '8');
    fails(/^there is no option --zzzzzz$/, '--zzzzzz');
  });

  it('refuses numbers that are none, or out of range', () => {
    fails(/takes a whole number: got '1.5'/, '--rounds', '1.5');
    fails(/must be 5 to 50: got 3/, '--rounds', '3');
    fails(/takes a number: got 'NaN'/, '--rate', 'NaN');
    assert.equal(parse('--rate', '-2.5e3').values['rate'], -2500);
  });

  it('says when a value is missing or not wanted', () => {
    fails(/--size needs a value/, '--size');
    fails(/--size needs a value/, '--size', '--quiet');
    fails(/--quiet takes no value: got 'yes'/, '--quiet=yes');
  });

  it('refuses words that nobody asked for', () => {
    fails(/'extra' is one word too many/, 'extra');
  });

  it('asks for required options and arguments', () => {
    const spec: OptionSpecs = { to: { type: 'string', required: true, summary: 'where to' } };
    assert.throws(() => parseArguments([], spec), /--to is missing: where to/);
    const positionals = [{ name: 'FILE', summary: 'a script', required: true }];
    assert.throws(() => parseArguments([], {}, positionals), /FILE is missing: a script/);
  });

  it('hands everything after the rest argument on as it is', () => {
    const positionals = [{ name: 'SCRIPT', summary: 'a script', required: true, rest: true }];
    const parsed = parseArguments(['--quiet', 'train.ts', '--quiet', '--unknown', '5'], OPTIONS, positionals);
    assert.deepEqual(parsed.positionals, ['train.ts', '--quiet', '--unknown', '5']);
    assert.equal(parsed.values['quiet'], true);
  });

  it('checks nothing when help is asked for', () => {
    assert.equal(parse('--nonsense', '--help').help, true);
    assert.equal(parse('-h').help, true);
  });
});
