/* What a model learns from: a text byte by byte, or a file of tokens.
 *
 *     text            any file                                  tokens 0..255
 *     nanoGPT         NAME.bin, uint16 after uint16             tokens 0..65535
 *     llm.c           256 int32 of heading (20240520, 1, count), then uint16; version 7: uint32
 *
 * Files are little-endian; they are mapped, not read, and stay so until the process ends. */
#ifndef FF_CLI_CORPUS_H
#define FF_CLI_CORPUS_H

#include "fivefold/diagnostics.h"
#include <stdint.h>

typedef struct ff_corpus {
    const unsigned char *bytes;
    int64_t tokens;
    int width; /* bytes of a token */
    const char *form;
} ff_corpus;

/* FF_NO when a token is outside of the vocabulary. */
ff_status ff_corpus_read(const char *path, int64_t vocab, ff_diagnostics *findings,
                         ff_corpus *corpus);
/* Cuts the last `tokens` off and returns them. */
ff_corpus ff_corpus_split(ff_corpus *corpus, int64_t tokens);
int32_t ff_corpus_token(const ff_corpus *corpus, int64_t index);

#endif
