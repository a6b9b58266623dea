/* Connection management by librdmacm, with queue pairs that were made without it: the states are walked here, with what the id knows. */
#include "port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define BACKLOG 128

static int failed(void) { return errno ? -errno : -EIO; }

static int channel_open(port *p) {
  if (p->cm) return 0;
  p->cm = rdma_create_event_channel();
  if (!p->cm) return failed();
  fcntl(p->cm->fd, F_SETFL, fcntl(p->cm->fd, F_GETFL) | O_NONBLOCK);
  struct epoll_event event = {.events = EPOLLIN};
  epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->cm->fd, &event);
  return 0;
}

/* 'fe80::1%eth0' has a scope. */
static int address_of(const char *ip, int tcp_port, struct sockaddr_storage *out) {
  memset(out, 0, sizeof *out);
  struct sockaddr_in *v4 = (struct sockaddr_in *)out;
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
  if (inet_pton(AF_INET, ip, &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons((uint16_t)tcp_port);
    return 0;
  }
  char bare[INET6_ADDRSTRLEN + IF_NAMESIZE + 2];
  strncpy(bare, ip, sizeof bare - 1);
  bare[sizeof bare - 1] = 0;
  char *scope = strchr(bare, '%');
  if (scope) {
    *scope++ = 0;
    v6->sin6_scope_id = if_nametoindex(scope);
    if (v6->sin6_scope_id == 0) v6->sin6_scope_id = (uint32_t)strtoul(scope, NULL, 10);
  }
  if (inet_pton(AF_INET6, bare, &v6->sin6_addr) != 1) return -EINVAL;
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons((uint16_t)tcp_port);
  return 0;
}

static int make_id(port *p, struct rdma_cm_id **id) {
  int error = channel_open(p);
  if (error) return error;
  if (rdma_create_id(p->cm, id, NULL, RDMA_PS_TCP)) return failed();
  uint32_t index = port_adopt(p, KIND_CM, *id);
  (*id)->context = (void *)(uintptr_t)index;
  return (int)index;
}

int cm_listen(port *p, const char *ip, int tcp_port, int *bound) {
  struct sockaddr_storage address;
  if (address_of(ip, tcp_port, &address)) return -EINVAL;
  struct rdma_cm_id *id;
  int index = make_id(p, &id);
  if (index < 0) return index;
  errno = 0;
  if (rdma_bind_addr(id, (struct sockaddr *)&address) || rdma_listen(id, BACKLOG)) {
    int error = failed();
    port_destroy(p, (uint32_t)index);
    return error;
  }
  *bound = ntohs(rdma_get_src_port(id));
  return index;
}

int cm_resolve(port *p, const char *source, const char *ip, int tcp_port, int timeout_ms) {
  struct sockaddr_storage to, from;
  if (address_of(ip, tcp_port, &to) || (*source && address_of(source, 0, &from))) return -EINVAL;
  struct rdma_cm_id *id;
  int index = make_id(p, &id);
  if (index < 0) return index;
  int same = *source && from.ss_family == to.ss_family;
  if (rdma_resolve_addr(id, same ? (struct sockaddr *)&from : NULL, (struct sockaddr *)&to, timeout_ms)) {
    int error = failed();
    port_destroy(p, (uint32_t)index);
    return error;
  }
  return index;
}

int cm_route(port *p, uint32_t index, int timeout_ms) {
  struct rdma_cm_id *id = port_object(p, index, KIND_CM);
  if (!id) return -EINVAL;
  if (id->verbs && strcmp(ibv_get_device_name(id->verbs->device), ibv_get_device_name(p->context->device)) != 0) return -EXDEV;
  return rdma_resolve_route(id, timeout_ms) ? failed() : 0;
}

static struct rdma_conn_param parameters(port *p, const void *data, size_t length) {
  const int32_t *a = p->head + ARGUMENT_WORD;
  return (struct rdma_conn_param){
      .private_data = data,
      .private_data_len = (uint8_t)length,
      .qp_num = (uint32_t)a[0],
      .responder_resources = (uint8_t)a[1],
      .initiator_depth = (uint8_t)a[2],
      .retry_count = (uint8_t)a[3],
      .rnr_retry_count = (uint8_t)a[4],
      .srq = (uint8_t)a[5],
  };
}

int cm_connect(port *p, uint32_t index, const void *data, size_t length) {
  struct rdma_cm_id *id = port_object(p, index, KIND_CM);
  if (!id) return -EINVAL;
  struct rdma_conn_param param = parameters(p, data, length);
  return rdma_connect(id, &param) ? failed() : 0;
}

int cm_accept(port *p, uint32_t index, const void *data, size_t length) {
  struct rdma_cm_id *id = port_object(p, index, KIND_CM);
  if (!id) return -EINVAL;
  struct rdma_conn_param param = parameters(p, data, length);
  return rdma_accept(id, &param) ? failed() : 0;
}

int cm_reject(port *p, uint32_t index, const void *data, size_t length) {
  struct rdma_cm_id *id = port_object(p, index, KIND_CM);
  if (!id) return -EINVAL;
  return rdma_reject(id, data, (uint8_t)length) ? failed() : 0;
}

int cm_establish(port *p, uint32_t index) {
  struct rdma_cm_id *id = port_object(p, index, KIND_CM);
  if (!id) return -EINVAL;
  return rdma_establish(id) ? failed() : 0;
}

int cm_disconnect(port *p, uint32_t index) {
  struct rdma_cm_id *id = port_object(p, index, KIND_CM);
  if (!id) return -EINVAL;
  return rdma_disconnect(id) ? failed() : 0;
}

int cm_modify(port *p, uint32_t index, uint32_t qp, int state) {
  struct rdma_cm_id *id = port_object(p, index, KIND_CM);
  queue_pair *q = port_object(p, qp, KIND_QP);
  if (!id || !q) return -EINVAL;
  struct ibv_qp_attr attr = {.qp_state = (enum ibv_qp_state)state};
  int mask = 0;
  if (rdma_init_qp_attr(id, &attr, &mask)) return failed();
  if (mask == 0) return 0; /* iWARP: the kernel moves the queue pair when the connection stands */
  int32_t a[A_WORDS];
  memcpy(a, p->head + ARGUMENT_WORD, sizeof a);
  a[A_MASK] &= mask;
  port_read_attributes(a, &attr);
  int error = ibv_modify_qp(q->ib, &attr, mask);
  if (error) return error < 0 ? -errno : -error;
  if (mask & IBV_QP_DEST_QPN) q->destination = attr.dest_qp_num;
  return 0;
}

void cm_destroy(struct rdma_cm_id *id) { rdma_destroy_id(id); }
