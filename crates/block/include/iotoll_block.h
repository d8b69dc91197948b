/* What iotoll's block library has beyond the interface of CAPI flash (capiblock.h).
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef IOTOLL_BLOCK_H
#define IOTOLL_BLOCK_H

#include "capiblock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Empties a disk's volatile write cache: writes that have ended survive a power failure. -1 and errno if it fails. */
int iotoll_block_flush(chunk_id_t chunk_id);

/* Copies why this thread's last call failed, where more is known than its errno, with a zero byte after it. Returns its length without that
 * byte, also where size is too small; 0 if nothing is known. */
size_t iotoll_block_error(char *into, size_t size);

/* The library's version, such as "0.1.0". */
const char *iotoll_block_version(void);

#ifdef __cplusplus
}
#endif

#endif
