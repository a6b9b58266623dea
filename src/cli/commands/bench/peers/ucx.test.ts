import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fakeHost } from '../../../host-files.test.fixture.js';
import { type BenchCase, OPS } from '../case.js';
import { isListening, parsePerftest, perftestValue, ucpTest, uctTest, ucx } from './ucx.js';

/** What ucx_perftest 1.13.1 printed. */
const CLIENT = `iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
5000,74.141,73.309,73.309,13640.89,13640.89,13641,13641
`;
const REFUSED = `[1731646723.123456] [host:1234 :0]        perftest.c:1234 UCX  ERROR   connect() failed: Connection refused
`;

const BASE: BenchCase = { op: 'send', metric: 'latency', size: 8, mode: 'poll', memory: 'arena' };

describe('ucx_perftest', () => {
  it('results are read by the names in the header', () => {
    assert.deepEqual(parsePerftest(CLIENT), {
      iterations: 5000,
      percentileLatency: 74.141,
      overallLatency: 73.309,
      overallBandwidth: 13640.89,
      overallRate: 13641,
    });
  });

  it('output without a result is an error that shows it', () => {
    assert.throws(() => parsePerftest(REFUSED), /printed no result: .*Connection refused/);
    assert.throws(() => parsePerftest(''), /nothing at all/);
    assert.throws(() => parsePerftest('iterations,overall_lat\n'), /no result/);
  });

  it('values are in our units: its MB is 2^20 bytes', () => {
    const result = parsePerftest(CLIENT);
    assert.equal(perftestValue('latency', result), 73.309);
    assert.ok(Math.abs(perftestValue('bandwidth', result) - 14.3036) < 1e-3);
    assert.equal(perftestValue('rate', result), 13641);
  });

  it('tests fit the operation', () => {
    assert.equal(ucpTest({ ...BASE, op: 'write' }), 'ucp_put_lat');
    assert.equal(ucpTest({ ...BASE, op: 'write', metric: 'bandwidth' }), 'ucp_put_bw');
    assert.equal(ucpTest({ ...BASE, op: 'write', metric: 'bandwidth', memory: 'private' }), 'tag_bw');
    assert.equal(ucpTest({ ...BASE, op: 'read', metric: 'bandwidth', memory: 'private' }), 'tag_bw');
    assert.equal(ucpTest(BASE), 'tag_lat');
    assert.equal(ucpTest({ ...BASE, metric: 'rate' }), 'tag_bw');
    assert.equal(uctTest(BASE), 'am_lat');
    assert.equal(uctTest({ ...BASE, metric: 'rate' }), 'am_bw');
    for (const op of OPS) assert.ok(ucpTest({ ...BASE, op }).length > 0);
  });

  it('is not compared with modes that sleep', () => {
    assert.match(ucx.unfit({ ...BASE, mode: 'event' }) ?? '', /polling/);
    assert.equal(ucx.unfit(BASE), undefined);
  });

  it('is known to listen from the kernel table, without connecting', (context) => {
    const host = fakeHost(context, {
      'proc/net/tcp': `  sl  local_address rem_address   st tx_queue
   0: 00000000:3419 00000000:0000 0A 00000000:00000000
   1: 0100007F:3420 0100007F:0016 01 00000000:00000000
`,
    });
    assert.equal(isListening(0x3419, host), true);
    assert.equal(isListening(0x3420, host), false);
    assert.equal(isListening(0x3421, host), false);
  });
});
