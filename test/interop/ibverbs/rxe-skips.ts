/** Tests of the verbs suite that the kernel's rdma_rxe cannot pass, each with the reason. */

export const RXE_SKIPS: readonly { readonly reason: string; readonly tests: readonly string[] }[] = [];
