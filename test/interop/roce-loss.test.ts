/** The roce provider passes the conformance suite between two network namespaces that lose 5 % of all packets: much of it is waiting for timers. */

process.env['VERBENA_LOSS'] = '5';
await import('../roce/namespaces.test.js');

export {};
