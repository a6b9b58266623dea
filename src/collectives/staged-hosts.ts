/**
 * Stages of hierarchical forms with leaders: something inside every host, something between the leaders.
 *
 * The group's schedule is one of the ordinary algorithms at the group's size, with the leader (or the first leader) as its rank 0.
 */

import { embed, type Stage, withReach } from '../schedule/compose.js';
import type { Schedule } from '../schedule/schedule.js';
import type { Hosts } from './hosts.js';

export interface StageOptions {
  /** Chunks of the whole per chunk of the group. Default 1. */
  readonly width?: number;
  /** Keep the finishing marks. Default false. */
  readonly finish?: boolean;
}

/** `make(size)` inside each host; hosts may differ in size. */
export function insideHosts(hosts: Hosts, make: (size: number) => Schedule, largest: number, options: StageOptions = {}): Stage {
  const { lanes, steps } = make(largest);
  return {
    lanes: withReach(lanes, 'host'),
    steps,
    instructions(rank) {
      const members = hosts.members(rank);
      return embed(make(members.length), members.indexOf(rank), { members, ...options });
    },
  };
}

/** `group` between the leaders; everybody else does nothing. */
export function betweenLeaders(hosts: Hosts, group: Schedule, options: StageOptions = {}): Stage {
  return {
    lanes: withReach(group.lanes, 'network'),
    steps: group.steps,
    instructions(rank) {
      const local = hosts.leaders.indexOf(rank);
      return local === -1 ? [] : embed(group, local, { members: hosts.leaders, ...options });
    },
  };
}
