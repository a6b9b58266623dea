#define _GNU_SOURCE
#include "port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes a port behind what separates it from the one before; returns 0, or an errno where it cannot be asked. */
static int json_port(FILE *out, const char *between, struct ibv_context *context, int number) {
  enum { MOST = 256 };
  struct ibv_port_attr port;
  memset(&port, 0, sizeof port);
  const int error = ibv_query_port(context, (uint8_t)number, &port);
  if (error) return error < 0 ? EIO : error;
  fprintf(out, "%s{\"number\":%d,\"state\":%d,\"linkLayer\":%d,\"maxMtu\":%d,\"activeMtu\":%d,\"lid\":%u,\"smLid\":%u,\"speed\":%u,\"width\":%u,\"maxMessage\":%u,",
          between, number, port.state, port.link_layer, 128 << port.max_mtu, 128 << port.active_mtu, port.lid, port.sm_lid, port.active_speed,
          port.active_width, port.max_msg_sz);
  fputs("\"pkeys\":[", out);
  between = "";
  for (int i = 0; i < port.pkey_tbl_len && i < 128; i++) {
    __be16 key;
    if (ibv_query_pkey(context, (uint8_t)number, i, &key) || key == 0) continue;
    fprintf(out, "%s[%d,%u]", between, i, (unsigned)ntohs(key));
    between = ",";
  }
  fputs("],\"gids\":[", out);
  between = "";
  struct ibv_gid_entry *gids = calloc(MOST, sizeof *gids);
  const ssize_t count = gids ? ibv_query_gid_table(context, gids, MOST, 0) : 0;
  for (ssize_t i = 0; i < count; i++) {
    if (gids[i].port_num != (uint32_t)number) continue;
    fprintf(out, "%s{\"index\":%u,\"type\":%u,\"interface\":%u,\"gid\":\"", between, gids[i].gid_index, gids[i].gid_type, gids[i].ndev_ifindex);
    for (int b = 0; b < 16; b++) fprintf(out, "%02x", gids[i].gid.raw[b]);
    fputs("\"}", out);
    between = ",";
  }
  free(gids);
  fputs("]}", out);
  return 0;
}

int port_json(port *p, char **text, size_t *length) {
  FILE *out = open_memstream(text, length);
  if (!out) return ENOMEM;
  const int error = json_port(out, "", p->context, p->number);
  fclose(out);
  if (error) free(*text);
  return error;
}

static void json_device(FILE *out, struct ibv_device *device) {
  fprintf(out, "{\"name\":\"%s\",\"transport\":%d,\"nodeType\":%d,", ibv_get_device_name(device), device->transport_type, device->node_type);
  struct ibv_context *context = ibv_open_device(device);
  if (!context) {
    fprintf(out, "\"errno\":%d}", errno);
    return;
  }
  struct ibv_device_attr attr;
  memset(&attr, 0, sizeof attr);
  ibv_query_device(context, &attr);
  struct ibv_device_attr_ex extended;
  memset(&extended, 0, sizeof extended);
  int has_odp = ibv_query_device_ex(context, NULL, &extended) == 0 && (extended.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0;
  fprintf(out,
          "\"firmware\":\"%s\",\"vendor\":%u,\"part\":%u,\"maxQpWr\":%d,\"maxSge\":%d,\"maxCqe\":%d,\"maxMr\":%d,\"maxRd\":%d,\"maxInitRd\":%d,\"atomics\":%d,\"maxSrq\":%d,"
          "\"maxSrqWr\":%d,\"maxSrqSge\":%d,\"maxMulticast\":%d,\"onDemand\":%s,\"dc\":%s,\"ports\":[",
          attr.fw_ver, attr.vendor_id, attr.vendor_part_id, attr.max_qp_wr, attr.max_sge, attr.max_cqe, attr.max_mr, attr.max_qp_rd_atom,
          attr.max_qp_init_rd_atom, attr.atomic_cap, attr.max_srq, attr.max_srq_wr, attr.max_srq_sge, attr.max_mcast_grp, has_odp ? "true" : "false",
          dc_supported(context) ? "true" : "false");
  const char *between = "";
  for (int n = 1; n <= attr.phys_port_cnt; n++)
    if (json_port(out, between, context, n) == 0) between = ",";
  fputs("]}", out);
  ibv_close_device(context);
}

int devices_json(char **text, size_t *length) {
  int count = 0;
  errno = 0;
  struct ibv_device **list = ibv_get_device_list(&count);
  if (!list) return errno ? errno : ENOSYS;
  FILE *out = open_memstream(text, length);
  if (!out) {
    ibv_free_device_list(list);
    return ENOMEM;
  }
  fputc('[', out);
  for (int i = 0; i < count; i++) {
    if (i > 0) fputc(',', out);
    json_device(out, list[i]);
  }
  fputc(']', out);
  fclose(out);
  ibv_free_device_list(list);
  return 0;
}
