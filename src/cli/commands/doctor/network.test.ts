import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fakeHost } from '../../host-files.test.fixture.js';
import { networkFindings } from './network.js';

function port(device: string, state: string, layer: string): Record<string, string> {
  const at = `sys/class/infiniband/${device}/ports/1`;
  return { [`${at}/state`]: `${state}\n`, [`${at}/rate`]: '100 Gb/sec (4X EDR)\n', [`${at}/link_layer`]: `${layer}\n` };
}

describe('The network', () => {
  it('interfaces have speed and MTU, and a fast one with small packets gets advice', (context) => {
    const host = fakeHost(context, {
      'sys/class/net/eth0/speed': '25000\n',
      'sys/class/net/eth0/mtu': '1500\n',
      'sys/class/net/eth0/operstate': 'up\n',
      'sys/class/net/lo/mtu': '65536\n',
      'sys/class/net/wlan0/speed': '-1\n',
      'sys/class/net/wlan0/mtu': '1500\n',
    });
    const [eth0, lo, wlan0] = networkFindings(host);
    assert.equal(eth0.found, 'up, 25 Gb/s, MTU 1500');
    assert.match(eth0.advice ?? '', /mtu 9000/);
    assert.equal(lo.found, 'unknown, speed unknown, MTU 65536');
    assert.equal(wlan0.advice, undefined);
  });

  it('RDMA ports have state, rate and link layer; one that is down is a problem', (context) => {
    const host = fakeHost(context, { ...port('mlx5_0', '4: ACTIVE', 'InfiniBand'), ...port('rxe0', '1: DOWN', 'Ethernet') });
    const [active, down] = networkFindings(host);
    assert.equal(active.found, 'ACTIVE, 100 Gb/sec (4X EDR), InfiniBand');
    assert.equal(active.level, 'ok');
    assert.equal(down.level, 'problem');
    assert.match(down.advice ?? '', /network interface up/);
  });

  it('no RDMA device is fine, and says how to make one', (context) => {
    const [none] = networkFindings(fakeHost(context, {}));
    assert.equal(none.level, 'ok');
    assert.match(none.advice ?? '', /rdma_rxe/);
  });
});
