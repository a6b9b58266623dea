/** What each provider could do here, and a live test of the one that works everywhere. */

import { getProvider, openDevice, providerNames } from '../../../verbs/open-device.js';
import type { Finding } from './finding.js';
import { selfTest } from './self-test.js';

const AREA = 'Providers';

function capabilityWords(capabilities: Record<string, unknown>): string {
  const on = Object.entries(capabilities).filter(([, value]) => value === true);
  return on.map(([name]) => name).join(', ');
}

async function providerFinding(name: string): Promise<Finding> {
  const provider = await getProvider(name);
  try {
    const reason = await provider.unavailable();
    if (reason !== undefined) return { area: AREA, what: name, level: 'note', found: `cannot be used here`, advice: reason };
    using device = await openDevice(name, { name: 'verbena doctor' });
    const { capabilities } = device;
    const words = capabilityWords(capabilities as unknown as Record<string, unknown>);
    const found = `${capabilities.qpTypes.join(' ')}; atomics ${capabilities.atomics}; ${words}`;
    return { area: AREA, what: name, level: 'ok', found, data: capabilities };
  } catch (error) {
    return { area: AREA, what: name, level: 'problem', found: 'failed to open', advice: (error as Error).message };
  }
}

export async function providerFindings(): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const name of providerNames()) findings.push(await providerFinding(name));
  return findings;
}

/** Moves data for real, step by step, on the first provider that opens. */
export async function selfTestFindings(provider: string): Promise<Finding[]> {
  const results = await selfTest(provider);
  return results.map(({ step, error, took }) => ({
    area: `Self-test of ${provider}`,
    what: step,
    level: error === undefined ? 'ok' : 'problem',
    found: error === undefined ? `passed in ${took.toFixed(1)} ms` : 'failed',
    advice: error,
    data: { tookMs: took },
  }));
}
