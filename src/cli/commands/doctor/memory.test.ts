import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fakeHost } from '../../host-files.test.fixture.js';
import { memoryFindings } from './memory.js';

const MEMINFO = `MemTotal:       24682416 kB
MemAvailable:   20000000 kB
HugePages_Total:      16
Hugepagesize:       2048 kB
`;

describe('Memory', () => {
  it('copying between processes follows Yama, and says what to do', (context) => {
    const finding = (scope: string | undefined) => {
      const files: Record<string, string> = scope === undefined ? {} : { 'proc/sys/kernel/yama/ptrace_scope': scope };
      return memoryFindings(fakeHost(context, files)).find(({ what }) => what === 'copies between processes');
    };
    assert.equal(finding(undefined)?.level, 'ok');
    assert.equal(finding('0')?.level, 'ok');
    assert.equal(finding('1')?.level, 'note');
    assert.match(finding('1')?.found ?? '', /ptrace_scope 1/);
    assert.equal(finding('2')?.level, 'problem');
    assert.match(finding('2')?.advice ?? '', /ptrace_scope=1/);
    assert.equal(finding('3')?.level, 'problem');
  });

  it('sizes come from meminfo', (context) => {
    const findings = memoryFindings(fakeHost(context, { 'proc/meminfo': MEMINFO }));
    assert.match(findings.find(({ what }) => what === 'memory')?.found ?? '', /^23\.5 GiB/);
    assert.match(findings.find(({ what }) => what === 'huge pages')?.found ?? '', /^16 of 2 MiB/);
  });

  it('a missing /dev/shm is worth a note only', (context) => {
    const finding = memoryFindings(fakeHost(context, {}), '/nonexistent').find(({ what }) => what === '/dev/shm');
    assert.equal(finding?.level, 'note');
  });
});
