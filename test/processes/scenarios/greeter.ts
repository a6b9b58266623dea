/** Listens under a name and accepts everybody; each guest writes here and leaves. Reports what it holds when asked. */

import { holdings } from '../holdings.js';
import { Link } from '../link.js';
import { hear, say, scenario } from '../scenario.js';

scenario<{ name: string }>(async ({ name }) => {
  const link = await Link.open(4096);
  const listener = await link.device.listen(name);
  say('listening', { remote: link.region.remote() });
  let guests = 0;
  const serving = (async () => {
    try {
      for await (const request of listener) {
        const qp = link.makeQp();
        const connection = await request.accept(qp);
        guests++;
        void connection.closed.then(() => qp.close());
      }
    } catch {
      // The listener was closed.
    }
  })();
  for (;;) {
    const { end } = await hear<{ end: boolean }>('report');
    say('report', { ...(await holdings()), guests });
    if (end) break;
  }
  listener.close();
  await serving;
  link.close();
});
