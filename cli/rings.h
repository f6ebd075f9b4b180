/* Messages between processes over shared memory.
 *
 * Each ordered pair of ranks has a ring of bytes with one writer and one reader; a message is its
 * length and its bytes, in as many pieces as the ring takes. Posting and moving never wait; a rank
 * that cannot go on pauses (ff_rings_pause), since there may be more ranks than cores. */
#ifndef FF_CLI_RINGS_H
#define FF_CLI_RINGS_H

#include "engine/transport.h"

/* Of zeroed memory that all ranks share. */
size_t ff_rings_bytes(int world);
/* The transport of a rank, in its process. */
ff_transport *ff_rings_open(void *memory, int world);
void ff_rings_close(ff_transport *transport);
/* What a rank does that has waited for `turns` turns: goes on, yields, or sleeps a little. */
void ff_rings_pause(int turns);

#endif
