/*
 * An opened RDMA device behind two rings of numbers. Work requests are written into the command block by JavaScript, completions are left
 * in the record area of their completion queue, and one call without arguments (`port_run`) posts the first and reaps the second.
 *
 *   head (32-bit words)   0 bytes of commands   1 queue to reap, 0 for none   2 first record to fill   3 records to fill at most
 *                         4 records filled      5 errno of the first refused request                   6 requests taken before it
 *                         f64 8 requests taken  f64 9 their bytes   f64 10 failed completions
 *   arguments             words 64..127: what the slow calls take (see port_modify)
 *   commands              records, multiples of 8 bytes, drawn below
 *
 * Every queue pair keeps a ring of what it has posted: a completion of libibverbs names only a wr_id, and when it failed not even the
 * operation. The wr_id is { kind 2 bits, generation 14, object 24, sequence 24 }; completions of a generation that is over (the queue
 * pair was closed or reset) are dropped here.
 */
#ifndef VERBENA_IBVERBS_PORT_H
#define VERBENA_IBVERBS_PORT_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdint.h>

enum {
  HEAD_COMMANDS,
  HEAD_QUEUE,
  HEAD_FIRST,
  HEAD_MOST,
  HEAD_FILLED,
  HEAD_ERRNO,
  HEAD_TAKEN,
  HEAD_OPERATIONS = 8, /* f64 */
  HEAD_BYTES,
  HEAD_ERRORS,
};
#define GENERATION_MASK 0x3fffu
#define ARGUMENT_WORD 64
#define ARGUMENT_WORDS 64
#define COMMAND_OFFSET 512 /* bytes: head and arguments */
#define COMMAND_BYTES 65536

/* Commands: words of a record. */
enum { COMMAND_SEND = 1, COMMAND_RECV, COMMAND_SRQ };
enum {
  C_KIND,
  C_BYTES,
  C_OBJECT,
  C_ID = 4, /* f64 */
  C_SGES = 6,
  C_INLINE, /* bytes behind the elements that are sent instead of them, or -1 */
  C_OPCODE, /* from here on sends only */
  C_FLAGS,
  C_REMOTE = 10, /* f64 */
  C_KEY = 12,
  C_IMMEDIATE,
  C_SWAP = 14, /* u64: also what an addition adds */
  C_COMPARE = 16,
  C_HANDLE = 18,
  C_PEER,
  C_PEER_KEY,
  C_SEND_WORDS = 22,
  C_RECV_WORDS = 8,
};
#define SGE_WORDS 4 /* f64 address, length, key */

/* Operations: positions in OPCODES of src/verbs/opcode.ts. */
enum { OP_SEND, OP_SEND_IMM, OP_WRITE, OP_WRITE_IMM, OP_READ, OP_SWAP, OP_ADD, OP_RECV, OP_RECV_WRITE };

/* A completion as JavaScript reads it. */
typedef struct {
  double id;
  uint32_t status, opcode, bytes, immediate, number, source, flags, vendor, object, lid;
} record;

typedef struct {
  double id;
  uint32_t bytes;
  uint32_t opcode;
} slot;

typedef struct {
  slot *slots;
  uint32_t depth, mask, head, tail;
} request_ring;

typedef struct dc_initiator dc_initiator;

typedef struct {
  struct ibv_qp *ib;
  dc_initiator *dc; /* set for DCI: requests go through the extended interface */
  uint32_t object, generation, destination;
  int type, shares;
  request_ring send, receive;
} queue_pair;

typedef struct {
  struct ibv_cq *ib;
  record *area;
  uint32_t records, object;
} completion_queue;

typedef struct {
  struct ibv_srq *ib;
  slot *slots;
  uint32_t *free;
  uint32_t depth, spare, object, generation;
} shared_queue;

enum { KIND_FREE, KIND_PD, KIND_MR, KIND_CQ, KIND_QP, KIND_SRQ, KIND_AH, KIND_CM };

typedef struct {
  int kind;
  void *it;
} object;

typedef struct port {
  struct ibv_context *context;
  struct ibv_comp_channel *channel;
  struct rdma_event_channel *cm; /* made by the first listen or connect */
  int number, epoll;
  uint32_t generation;
  object *objects;
  uint32_t object_count, object_room;
  int32_t *head;
  uint8_t *commands;
} port;

/* Sends outstanding requests and reaps completions. */
void port_run(port *p);

/* Every RDMA device of the machine with its ports as JSON, which the caller frees; returns 0 or an errno. */
int devices_json(char **text, size_t *length);

/* The same of an open port, as it is now. */
int port_json(port *p, char **text, size_t *length);

/* `name`: a device's; returns 0 or an errno. `block`: COMMAND_OFFSET + COMMAND_BYTES bytes that outlive the port. */
int port_open(const char *name, int number, void *block, port **out);
/* Destroys everything that is left. */
void port_close(port *p);

uint32_t port_adopt(port *p, int kind, void *it);
static inline void *port_object(port *p, uint32_t index, int kind) {
  return index < p->object_count && p->objects[index].kind == kind ? p->objects[index].it : NULL;
}
void port_forget(port *p, uint32_t index);
uint32_t port_generation(port *p);

/* All of the following return an object's number, or -errno. */
int port_alloc_pd(port *p);
int port_register(port *p, uint32_t pd, void *address, size_t length, int access);
int port_create_cq(port *p, uint32_t depth, uint32_t records);
int port_create_srq(port *p, uint32_t pd, uint32_t depth, uint32_t sges);
/* arguments: 0 pd, 1 send cq, 2 recv cq, 3 srq or 0, 4 type, 5 sends, 6 receives, 7 send sges, 8 recv sges, 9 inline, 10 signal all, 11 dc key */
int port_create_qp(port *p);
/* arguments as port_modify's address part */
int port_create_ah(port *p, uint32_t pd);
/* Returns 0 or an errno. */
int port_destroy(port *p, uint32_t index);

/* Words of the arguments of port_modify. */
enum {
  A_MASK,
  A_STATE,
  A_PKEY,
  A_PORT,
  A_ACCESS,
  A_QKEY,
  A_MTU,
  A_DESTINATION,
  A_RQ_PSN,
  A_SQ_PSN,
  A_MAX_RD,
  A_MAX_DEST_RD,
  A_MIN_RNR,
  A_TIMEOUT,
  A_RETRY,
  A_RNR_RETRY,
  A_CUR_STATE,
  A_NOTIFY_DRAINED,
  A_GLOBAL,
  A_LID,
  A_GID_INDEX,
  A_HOPS,
  A_SERVICE_LEVEL,
  A_CLASS,
  A_FLOW,
  A_RATE,
  A_GID, /* 4 words */
  A_WORDS = A_GID + 4,
};
int port_modify(port *p, uint32_t qp);
/* The state of a queue pair as IBV_QPS_, its attributes in the arguments; or -errno. */
int port_query(port *p, uint32_t qp);
void port_forget_requests(port *p, queue_pair *q);
void port_read_attributes(const int32_t *a, struct ibv_qp_attr *attr);

/* Dynamically connected transport, by mlx5dv; ENOSYS where that is not there. */
int dc_supported(struct ibv_context *context);
int dc_create_initiator(port *p, queue_pair *q, struct ibv_pd *pd, struct ibv_qp_init_attr *init);
int dc_create_target(port *p, queue_pair *q, struct ibv_pd *pd, struct ibv_qp_init_attr *init, uint64_t key);
int dc_post(queue_pair *q, struct ibv_send_wr *wr, struct ibv_ah *ah, uint32_t target, uint64_t key);
void dc_free(queue_pair *q);

/* Connections (cm.c). Each returns 0 or a number, or -errno. */
int cm_listen(port *p, const char *ip, int tcp_port, int *bound);
int cm_resolve(port *p, const char *source, const char *ip, int tcp_port, int timeout_ms);
int cm_route(port *p, uint32_t id, int timeout_ms);
/* arguments: 0 queue pair number, 1 responder resources, 2 initiator depth, 3 retries, 4 rnr retries, 5 has srq */
int cm_connect(port *p, uint32_t id, const void *data, size_t length);
int cm_accept(port *p, uint32_t id, const void *data, size_t length);
int cm_reject(port *p, uint32_t id, const void *data, size_t length);
int cm_establish(port *p, uint32_t id);
int cm_disconnect(port *p, uint32_t id);
/* Moves a queue pair as the connection asks; arguments with A_MASK override. */
int cm_modify(port *p, uint32_t id, uint32_t qp, int state);
void cm_destroy(struct rdma_cm_id *id);

#endif
