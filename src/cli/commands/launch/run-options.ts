/** The words of `verbena run` that need more than the parser: restarts, virtual hosts, variables. */

import { UsageError } from '../../command.js';

/** 'never' is 0, 'on-failure:3' is 3. */
export function parseRestart(text: string): number {
  if (text === 'never') return 0;
  const match = /^on-failure:(\d+)$/.exec(text);
  if (!match) throw new UsageError(`--restart is never or on-failure:K, as in on-failure:3: got '${text}'`);
  return Number(match[1]);
}

/** '2x3' is two hosts of three ranks, '3,1' one of three and one of one. */
export function parseVirtualHosts(text: string): number[] {
  const product = /^(\d+)x(\d+)$/.exec(text);
  const hosts = product ? Array.from({ length: Number(product[1]) }, () => Number(product[2])) : text.split(',').map(Number);
  if (hosts.length === 0 || hosts.some((ranks) => !Number.isInteger(ranks) || ranks < 1)) {
    throw new UsageError(`--virtual-hosts is HOSTSxRANKS, as in 2x2, or ranks per host, as in 3,1: got '${text}'`);
  }
  return hosts;
}

/** 'a:2', 'user@b' (one rank). */
export function parseHosts(words: readonly string[]): { name: string; ranks: number }[] {
  return words.map((word) => {
    const match = /^([^:\s-][^:\s]*)(?::(\d+))?$/.exec(word);
    const ranks = Number(match?.[2] ?? 1);
    if (!match || ranks < 1) throw new UsageError(`--hosts is HOST:RANKS, as in a:2,b:2 or user@a:1: got '${word}'`);
    return { name: match[1], ranks };
  });
}

/** Variables that go to ranks of other hosts: ours and node's. The rest of the environment is the other host's own. */
export function forwarded(env: NodeJS.ProcessEnv): Record<string, string> {
  const ours = /^(VERBENA_(?!SECRET|SSH|REMOTE_COMMAND)|NODE_OPTIONS$|NO_COLOR$|FORCE_COLOR$)/;
  return Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => ours.test(entry[0]) && entry[1] !== undefined),
  );
}

/** 'K=V' words. The parser splits at commas; a piece without a name belongs to the value before it. */
export function parseVariables(words: readonly string[]): Record<string, string> {
  const variables: [name: string, value: string][] = [];
  for (const word of words) {
    const match = /^([A-Za-z_]\w*)=(.*)$/s.exec(word);
    const last = variables.at(-1);
    if (match) variables.push([match[1], match[2]]);
    else if (last) last[1] += `,${word}`;
    else throw new UsageError(`--env takes NAME=VALUE: got '${word}'`);
  }
  return Object.fromEntries(variables);
}

/** Number of ranks from `-n` and the hosts; both may be given when they agree. */
export function sizeOf(given: number | undefined, hosts: readonly number[] | undefined): number {
  const sum = hosts?.reduce((total, ranks) => total + ranks, 0);
  if (sum !== undefined && given !== undefined && given !== sum) {
    throw new UsageError(
      `-n ${given} and hosts with room for ${sum} ranks contradict each other: leave -n out, or make them equal`,
    );
  }
  return given ?? sum ?? 1;
}
