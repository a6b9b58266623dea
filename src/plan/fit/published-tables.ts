/**
 * Published measurements of all-reduce against which the models are tested. Source: stas00/ml-engineering, network/README.md (nccl-tests and its all_reduce_bench.py), sizes in
 * bytes, bus bandwidth in GB/s (10^9). Where the source prints a time it is used; elsewhere the time follows from time = size x 2(n-1)/n / busbw.
 */

export interface MeasuredRow {
  readonly bytes: number;
  readonly seconds: number;
}

/** A table of times that others have published. */
export interface MeasuredTable {
  readonly name: string;
  readonly ranks: number;
  readonly rows: readonly MeasuredRow[];
}

const KiB = 2 ** 10;
/** 32 KiB, 64 KiB, ... 16 GiB. */
const sizes = Array.from({ length: 20 }, (_, i) => 32 * KiB * 2 ** i);

function fromBusBandwidth(name: string, ranks: number, gigabytesPerSecond: readonly number[]): MeasuredTable {
  return {
    name,
    ranks,
    rows: gigabytesPerSecond.map((bus, i) => ({
      bytes: sizes[i],
      seconds: (sizes[i] * (2 * (ranks - 1))) / ranks / (bus * 1e9),
    })),
  };
}

const a100Microseconds = [
  43.83, 46.8, 51.76, 61.38, 80.4, 101.9, 101.4, 101.5, 133.5, 276.6, 424.0, 684.6, 1327.6, 2420.6, 4218.4, 8203.9, 16_240,
  32_136, 64_074, 127_997,
];

export const publishedTables: readonly MeasuredTable[] = [
  { name: '8 x A100, NVLink 3', ranks: 8, rows: a100Microseconds.map((us, i) => ({ bytes: sizes[i], seconds: us * 1e-6 })) },
  fromBusBandwidth(
    '8 x H200, NVLS',
    8,
    [
      1.44, 2.93, 5.73, 11.74, 23.94, 39.93, 64.53, 107.16, 155.53, 219.89, 275.84, 346.51, 401.93, 436.15, 450.29, 463.58,
      469.17, 473.1, 477.45, 482.26,
    ],
  ),
  fromBusBandwidth(
    '8 x B200, one host',
    8,
    [
      1.2, 2.17, 4.86, 9.54, 18.71, 36.06, 63.09, 76.48, 126.49, 254.96, 325.97, 400.6, 568.38, 646.11, 688.99, 723.34, 734.97,
      740.64, 839.07, 845.67,
    ],
  ),
  fromBusBandwidth(
    '32 x B200, four hosts',
    32,
    [
      0.01, 0.04, 0.45, 1.33, 2.84, 5.37, 10.38, 18.9, 35.12, 64.43, 91.19, 156.74, 197.94, 229.09, 326.9, 361.99, 372.42, 377.34,
      380.39, 381.8,
    ],
  ),
];

/** 8 x H200 at 16 GiB, bus bandwidth in GB/s: what other collectives reach on the ring that all-reduce was measured on (NVLS off). */
export const h200Collectives = {
  allreduceRing: 367.2,
  others: [
    { collective: 'all-gather', bus: 361.4 },
    { collective: 'reduce-scatter', bus: 362.9 },
  ],
} as const;

/** H200 at 8 GiB: bus bandwidth of all-reduce with the ring, and with whatever NCCL picks when the switch may reduce (NVLS from five GPUs on). */
export const h200SwitchReduction = [
  { gpus: 4, ring: 363.3, picked: 363.3 },
  { gpus: 5, ring: 364.4, picked: 414.2 },
  { gpus: 6, ring: 365.1, picked: 435.6 },
  { gpus: 7, ring: 365.7, picked: 460.0 },
  { gpus: 8, ring: 365.6, picked: 473.1 },
] as const;
