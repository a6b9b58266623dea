/**
 * What is going to happen, in order of time: a binary heap.
 *
 *     times  [ 10 | 12 | 30 | 15 | ...]     packed doubles: integers of nanoseconds
 *     orders [  4 |  2 |  9 |  7 | ...]     ties go to what was scheduled first, so a run is the same every time
 *     items  [  a |  b |  c |  d | ...]
 */

export class EventQueue<T> {
  private readonly times: number[] = [];
  private readonly orders: number[] = [];
  private readonly items: T[] = [];
  private nextOrder = 0;

  get size(): number {
    return this.times.length;
  }

  /** Time of the next item; Infinity when there is none. */
  get nextTime(): number {
    return this.times.length > 0 ? this.times[0] : Number.POSITIVE_INFINITY;
  }

  push(time: number, item: T): void {
    const { times, orders, items } = this;
    const order = this.nextOrder++;
    let at = times.length;
    times.push(time);
    orders.push(order);
    items.push(item);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (times[parent] <= time) break;
      times[at] = times[parent];
      orders[at] = orders[parent];
      items[at] = items[parent];
      at = parent;
    }
    times[at] = time;
    orders[at] = order;
    items[at] = item;
  }

  /** Takes the next item. The queue must not be empty. */
  pop(): T {
    const { times, orders, items } = this;
    const first = items[0];
    const time = times.pop() as number;
    const order = orders.pop() as number;
    const item = items.pop() as T;
    const size = times.length;
    if (size === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= size) break;
      const right = child + 1;
      if (right < size && (times[right] < times[child] || (times[right] === times[child] && orders[right] < orders[child]))) {
        child = right;
      }
      if (times[child] > time || (times[child] === time && orders[child] > order)) break;
      times[at] = times[child];
      orders[at] = orders[child];
      items[at] = items[child];
      at = child;
    }
    times[at] = time;
    orders[at] = order;
    items[at] = item;
    return first;
  }
}
