/** What a push and a pull cost is what the formula says, for servers that are the bottleneck and for servers that are not. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { measureOnLinks } from '../../src/cli/commands/train-exchange/simulated-servers.js';

describe('parameter servers on links of 1 Gb/s', () => {
  for (const [workers, servers] of [
    [1, 1],
    [2, 1],
    [2, 2],
    [3, 1],
    [4, 2],
  ]) {
    it(`${workers} workers, ${servers} servers: each direction takes max(n/b, p n/(k b))`, async () => {
      const { predictedUs, pushUs, pullUs } = await measureOnLinks(workers, servers, 1 << 17, 1e9);
      // Above it are the headers of packets (4 %) and the time of a few messages.
      for (const measured of [pushUs, pullUs]) {
        assert.ok(measured >= predictedUs && measured < 1.15 * predictedUs, `${measured} us, predicted ${predictedUs} us`);
      }
    });
  }
});
