/* SPDX-License-Identifier: Apache-2.0 */
/* The endpoints, one function each; they answer, or return MHD_NO to cut the connection. */
#ifndef ENGINE_HTTP_HANDLERS_H
#define ENGINE_HTTP_HANDLERS_H

#include "engine/http/exchange.h"

enum MHD_Result api_info_models(struct exchange *x);
enum MHD_Result api_info_health(struct exchange *x);
enum MHD_Result api_info_version(struct exchange *x);
enum MHD_Result api_info_metrics(struct exchange *x);
enum MHD_Result api_tokenize_run(struct exchange *x);
enum MHD_Result api_tokenize_reverse(struct exchange *x);
enum MHD_Result api_generate_completions(struct exchange *x);
enum MHD_Result api_generate_chat(struct exchange *x);

#endif
