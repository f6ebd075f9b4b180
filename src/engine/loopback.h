/* The transport of one process that plays all ranks: a message is copied when both sides have
 * posted it. */
#ifndef FF_ENGINE_LOOPBACK_H
#define FF_ENGINE_LOOPBACK_H

#include "engine/transport.h"

ff_transport *ff_loopback_create(int world);
void ff_loopback_free(ff_transport *transport);

#endif
