/*
 * The few functions of libuv that the bell uses, declared here because the Node-API headers do not bring them. They are exported
 * by every node binary, and libuv keeps its ABI within version 1 (UV_POLL, the size queries and these signatures included).
 */
#ifndef VERBENA_UV_H
#define VERBENA_UV_H

#include <stddef.h>

typedef struct uv_loop_s uv_loop_t;
typedef struct uv_handle_s uv_handle_t;

enum { VERBENA_UV_POLL = 8, VERBENA_UV_READABLE = 1 };

typedef void (*uv_poll_cb)(uv_handle_t *handle, int status, int events);
typedef void (*uv_close_cb)(uv_handle_t *handle);

size_t uv_handle_size(int type);
void uv_handle_set_data(uv_handle_t *handle, void *data);
void *uv_handle_get_data(const uv_handle_t *handle);
int uv_poll_init(uv_loop_t *loop, uv_handle_t *handle, int fd);
int uv_poll_start(uv_handle_t *handle, int events, uv_poll_cb callback);
int uv_poll_stop(uv_handle_t *handle);
void uv_close(uv_handle_t *handle, uv_close_cb callback);
void uv_ref(uv_handle_t *handle);
void uv_unref(uv_handle_t *handle);

#endif
