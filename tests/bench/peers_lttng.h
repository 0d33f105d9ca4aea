/* peers_lttng.h: the event of peers.cc for LTTng-UST, which includes this file
 * again. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER peers
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "peers_lttng.h"
#if !defined(PEERS_LTTNG_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PEERS_LTTNG_H
#ifndef LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#endif
#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(
    peers, packet, LTTNG_UST_TP_ARGS(unsigned, row, unsigned long, bytes),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(unsigned, row, row)
            lttng_ust_field_integer(unsigned long, bytes, bytes)
                lttng_ust_field_integer(unsigned long, odd, bytes & 1)
                    lttng_ust_field_integer(unsigned long, is_long,
                                            bytes >> 10)))
#endif
#include <lttng/tracepoint-event.h>
