/** Slurm's short forms: lists of nodes (`n[1-3,7],gpu01`) and tasks per node (`2(x3),1`). */

import { LaunchError } from './errors.js';

/** Splits at commas that are not inside brackets. */
function split(text: string): string[] {
  return text.split(/,(?![^[]*\])/).filter((part) => part !== '');
}

/** 'n[1-3,7],gpu01' is n1, n2, n3, n7, gpu01; leading zeros stay. @throws LAUNCH_ENVIRONMENT for something else. */
export function expandNodes(text: string): string[] {
  return split(text).flatMap((part) => {
    const match = /^([^[\]]*)\[([\d,-]+)\]([^[]*)((?:\[[\d,-]+\].*)?)$/.exec(part);
    if (!match) {
      if (/[[\]]/.test(part))
        throw new LaunchError('LAUNCH_ENVIRONMENT', `SLURM_STEP_NODELIST has '${part}', which is no list of nodes`);
      return [part];
    }
    const [, prefix, ranges, suffix, more] = match;
    const names = ranges.split(',').flatMap((range) => {
      const [first, last = first] = range.split('-');
      const count = Number(last) - Number(first) + 1;
      return Array.from({ length: count }, (_, i) => String(Number(first) + i).padStart(first.length, '0'));
    });
    return names.flatMap((name) => (more ? expandNodes(`${prefix}${name}${suffix}${more}`) : [`${prefix}${name}${suffix}`]));
  });
}

/** '2(x3),1' is 2, 2, 2, 1. */
export function countTasks(text: string): number[] {
  return split(text).flatMap((part) => {
    const match = /^(\d+)(?:\(x(\d+)\))?$/.exec(part);
    if (!match)
      throw new LaunchError('LAUNCH_ENVIRONMENT', `SLURM_STEP_TASKS_PER_NODE has '${part}', which is no count of tasks`);
    return Array.from({ length: Number(match[2] ?? 1) }, () => Number(match[1]));
  });
}
