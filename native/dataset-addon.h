#ifndef VERBENA_DATASET_ADDON_H
#define VERBENA_DATASET_ADDON_H

#define NAPI_VERSION 8
#include <node_api.h>

napi_value dataset_call_js(napi_env env, napi_callback_info info);
napi_value dataset_run_js(napi_env env, napi_callback_info info);
napi_value dataset_name_js(napi_env env, napi_callback_info info);

#endif
