import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { allowedCpus, measuringPair, parseCpuList } from './cpus.js';
import { fakeHost } from './host-files.test.fixture.js';

function topology(cpu: number, siblings: string, socket: number): Record<string, string> {
  const at = `sys/devices/system/cpu/cpu${cpu}/topology`;
  return { [`${at}/thread_siblings_list`]: `${siblings}\n`, [`${at}/physical_package_id`]: `${socket}\n` };
}

describe('CPUs', () => {
  it('are read from the kernel list form', () => {
    assert.deepEqual(parseCpuList('0-2,5,8-9'), [0, 1, 2, 5, 8, 9]);
    assert.deepEqual(parseCpuList('3'), [3]);
    assert.deepEqual(parseCpuList(''), []);
  });

  it('are those that the process may use', (context) => {
    const host = fakeHost(context, { 'proc/self/status': 'Name:\tnode\nCpus_allowed_list:\t2-3\n' });
    assert.deepEqual(allowedCpus(host), [2, 3]);
  });

  it('for measuring are two cores of one package, not two threads of one core', (context) => {
    const host = fakeHost(context, {
      'proc/self/status': 'Cpus_allowed_list:\t0-7\n',
      ...topology(0, '0,4', 0),
      ...topology(1, '1,5', 0),
      ...topology(2, '2,6', 1),
      ...topology(3, '3,7', 1),
      ...topology(4, '0,4', 0),
      ...topology(5, '1,5', 0),
      ...topology(6, '2,6', 1),
      ...topology(7, '3,7', 1),
    });
    assert.deepEqual(measuringPair(host), [1, 4]);
  });

  it('for measuring are both of two, and the only one twice', (context) => {
    const two = fakeHost(context, {
      'proc/self/status': 'Cpus_allowed_list:\t0-1\n',
      ...topology(0, '0', 0),
      ...topology(1, '1', 0),
    });
    assert.deepEqual(measuringPair(two), [0, 1]);
    assert.deepEqual(measuringPair(fakeHost(context, { 'proc/self/status': 'Cpus_allowed_list:\t3\n' })), [3, 3]);
  });
});
