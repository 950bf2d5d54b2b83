/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pin.h: PIN keeps a cached prefix from eviction until UNPIN, whoever asked for it. The deepest
 * node of a PIN carries an anchor; a second PIN of the same prefix changes nothing. Anchored bytes
 * of a namespace are at most a quarter of its ceiling.
 */
#ifndef KVD_CORE_PIN_H
#define KVD_CORE_PIN_H

#include "kvd/core/machine.h"

int pin_run(struct core *core, struct call *call);
/* Takes away the deepest anchor on the cached prefix of the tokens. */
int pin_undo(struct core *core, struct call *call);

#endif
