/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for engine/text in tests: one token for each byte. */
#ifndef TESTS_FAKE_TOKENIZER_H
#define TESTS_FAKE_TOKENIZER_H

#include "engine/text/tokenizer.h"

#define FAKE_TOKEN_END 256u
#define FAKE_TOKEN_START 257u /* BOS too */
#define FAKE_VOCAB 258u

const struct tokenizer *fake_tokenizer(bool adds_bos);

#endif
