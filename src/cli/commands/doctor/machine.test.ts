import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fakeHost } from '../../host-files.test.fixture.js';
import { containerKind, cpuQuota, machineFindings, memoryLimit } from './machine.js';

describe('The machine', () => {
  it('has the CPU quota of control groups, both versions', (context) => {
    assert.equal(cpuQuota(fakeHost(context, { 'sys/fs/cgroup/cpu.max': '150000 100000\n' })), 1.5);
    assert.equal(cpuQuota(fakeHost(context, { 'sys/fs/cgroup/cpu.max': 'max 100000\n' })), undefined);
    const v1 = { 'sys/fs/cgroup/cpu/cpu.cfs_quota_us': '50000', 'sys/fs/cgroup/cpu/cpu.cfs_period_us': '100000' };
    assert.equal(cpuQuota(fakeHost(context, v1)), 0.5);
    assert.equal(cpuQuota(fakeHost(context, { ...v1, 'sys/fs/cgroup/cpu/cpu.cfs_quota_us': '-1' })), undefined);
    assert.equal(cpuQuota(fakeHost(context, {})), undefined);
  });

  it('has the memory limit of control groups, both versions', (context) => {
    assert.equal(memoryLimit(fakeHost(context, { 'sys/fs/cgroup/memory.max': '1073741824\n' })), 2 ** 30);
    assert.equal(memoryLimit(fakeHost(context, { 'sys/fs/cgroup/memory.max': 'max\n' })), undefined);
    const none = { 'sys/fs/cgroup/memory/memory.limit_in_bytes': '9223372036854771712\n' };
    assert.equal(memoryLimit(fakeHost(context, none)), undefined);
  });

  it('knows containers', (context) => {
    assert.equal(containerKind(fakeHost(context, {}), { KUBERNETES_SERVICE_HOST: '10.0.0.1' }), 'kubernetes');
    assert.equal(containerKind(fakeHost(context, { '.dockerenv': '' }), {}), 'docker');
    assert.equal(
      containerKind(fakeHost(context, { 'proc/1/cgroup': '0::/system.slice/containerd.service/x' }), {}),
      'containerd',
    );
    assert.equal(containerKind(fakeHost(context, { 'proc/1/cgroup': '0::/init.scope' }), {}), undefined);
  });

  it('with one core gets advice, with two none', (context) => {
    const levels = (list: string) => {
      const host = fakeHost(context, { 'proc/self/status': `Cpus_allowed_list:\t${list}\n` });
      return machineFindings(host, {}).find((finding) => finding.what === 'processors');
    };
    assert.equal(levels('0')?.level, 'note');
    assert.match(levels('0')?.advice ?? '', /event or adaptive/);
    assert.equal(levels('0-1')?.level, 'ok');
    assert.equal(levels('0-1')?.advice, undefined);
  });
});
