/**
 * Who copies what a checkpoint holds: its thread, while the next step computes; or the step, when it wants to write and the thread has not come to it.
 *
 *   open ──> thread copies ──> copied            open ──> step copies ──> copied by the step
 */
export const COPY = { open: 0, byThread: 1, copied: 2, byStep: 3, copiedByStep: 4 } as const;
