/** `verbena doctor`: what this machine offers, what is missing, and what to do about it. */

import { defineCommand } from '../../command.js';
import { wrap } from '../../help.js';
import { HostFiles } from '../../host-files.js';
import { columns, type Style } from '../../style.js';
import type { Finding, Level } from './finding.js';
import { machineFindings } from './machine.js';
import { memoryFindings } from './memory.js';
import { networkFindings } from './network.js';
import { providerFindings, selfTestFindings } from './providers.js';
import { rdmaFindings } from './rdma.js';
import { roceFindings } from './roce.js';
import { softwareFindings } from './software.js';

const MARKS: Readonly<Record<Level, string>> = { ok: '✓', note: '•', problem: '✗' };

/** The findings as a page: areas, marks, and the advice below what it is about. */
export function doctorText(findings: readonly Finding[], style: Style, width: number): string {
  const paint = { ok: style.green, note: style.yellow, problem: style.red };
  const nameWidth = Math.max(...findings.map((finding) => columns(finding.what)));
  const indent = ' '.repeat(nameWidth + 6);
  const lines: string[] = [];
  let area = '';
  for (const finding of findings) {
    if (finding.area !== area) {
      lines.push('', style.bold(finding.area));
      area = finding.area;
    }
    const name = finding.what + ' '.repeat(nameWidth - columns(finding.what));
    const found = wrap(finding.found, width, indent).slice(indent.length);
    lines.push(`  ${paint[finding.level](MARKS[finding.level])} ${name}  ${found}`);
    if (finding.advice) lines.push(style.dim(wrap(finding.advice, width, indent)));
  }
  const count = (level: Level) => findings.filter((finding) => finding.level === level).length;
  const problems = count('problem');
  const verdict =
    problems === 0 ? style.green('No problems') : style.red(`${problems} ${problems === 1 ? 'problem' : 'problems'}`);
  lines.push('', `${verdict}, ${count('note')} notes, ${count('ok')} fine.`);
  return lines.join('\n').trimStart();
}

export const doctor = defineCommand({
  name: 'doctor',
  summary: 'shows what this machine offers, what is missing, and what to do about it',
  description:
    'Looks at processors, memory and its limits, containers, network interfaces, RDMA devices and libraries, says what each provider could do ' +
    'here and why not, and then moves real data on the local provider and checks it.\n\n' +
    'Marks: ✓ fine, • works but worth knowing, ✗ will not work. The exit code is 1 when there is a problem.',
  options: {
    'self-test': { type: 'string', default: 'shm', value: 'PROVIDER', summary: 'provider of the live test' },
  },
  examples: [
    { line: 'verbena doctor', note: 'A page to read.' },
    { line: 'verbena doctor --json', note: 'The same for a program: findings with area, what, level, found, advice and data.' },
    { line: 'verbena doctor --self-test ibverbs:rxe0', note: 'The live test on an RDMA device.' },
  ],
  async run({ options, style, width, signal }) {
    const files = new HostFiles();
    const findings = [
      ...machineFindings(files),
      ...memoryFindings(files),
      ...networkFindings(files),
      ...roceFindings(files),
      ...softwareFindings(),
      ...(await providerFindings()),
      ...rdmaFindings(),
      ...(await selfTestFindings(options['self-test'])),
    ];
    signal.throwIfAborted(); // the self-test failed by the interruption
    const healthy = findings.every((finding) => finding.level !== 'problem');
    return {
      document: { healthy, findings },
      text: () => doctorText(findings, style, Math.min(width, 120)),
      exitCode: healthy ? 0 : 1,
    };
  },
});
