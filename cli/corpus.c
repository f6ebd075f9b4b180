/* See corpus.h. */
#include "cli/corpus.h"

#include "base/diagnose.h"
#include "cli/files.h"
#include <string.h>

enum { HEADING_BYTES = 1024, MAGIC = 20240520, NARROW = 1, WIDE = 7 };

static uint32_t number_at(const unsigned char *bytes, int width) {
    uint32_t number = 0;
    for (int i = width - 1; i >= 0; i--)
        number = number << 8 | bytes[i];
    return number;
}

static bool ends_with(const char *path, const char *ending) {
    size_t length = strlen(path), cut = strlen(ending);
    return length > cut && strcmp(path + length - cut, ending) == 0;
}

static ff_status refuse(ff_diagnostics *findings, const char *path, const char *what) {
    ff_report(findings, FF0403, FF_NOWHERE, "%s: %s", path, what);
    return FF_INVALID;
}

/* A heading of llm.c: its count has to be what the file holds. */
static ff_status read_heading(const char *path, size_t length, ff_diagnostics *findings,
                              ff_corpus *corpus) {
    uint32_t version = number_at(corpus->bytes + 4, 4);
    if (version != NARROW && version != WIDE)
        return refuse(findings, path, "a token file of a version that is not known");
    corpus->width = version == WIDE ? 4 : 2;
    corpus->form = version == WIDE ? "tokens of llm.c, uint32" : "tokens of llm.c, uint16";
    corpus->tokens = number_at(corpus->bytes + 8, 4);
    corpus->bytes += HEADING_BYTES;
    if ((size_t)corpus->tokens * (size_t)corpus->width != length - HEADING_BYTES)
        return refuse(findings, path, "its heading counts other tokens than it holds");
    return FF_OK;
}

static ff_status look(const char *path, size_t length, ff_diagnostics *findings,
                      ff_corpus *corpus) {
    if (length >= HEADING_BYTES && number_at(corpus->bytes, 4) == MAGIC)
        return read_heading(path, length, findings, corpus);
    if (!ends_with(path, ".bin"))
        return FF_OK;
    if (length % 2 != 0)
        return refuse(findings, path, "an odd number of bytes are no uint16 tokens");
    corpus->width = 2;
    corpus->form = "tokens of nanoGPT, uint16";
    corpus->tokens = (int64_t)(length / 2);
    return FF_OK;
}

ff_status ff_corpus_read(const char *path, int64_t vocab, ff_diagnostics *findings,
                         ff_corpus *corpus) {
    const char *text;
    size_t length;
    ff_status status = ff_file_map(path, findings, &text, &length);
    if (status != FF_OK)
        return status;
    *corpus = (ff_corpus){.bytes = (const unsigned char *)text,
                          .tokens = (int64_t)length,
                          .width = 1,
                          .form = "bytes of a text"};
    status = look(path, length, findings, corpus);
    for (int64_t i = 0; status == FF_OK && i < corpus->tokens; i++) {
        if (number_at(corpus->bytes + i * corpus->width, corpus->width) < (uint64_t)vocab)
            continue;
        ff_report(findings, FF0701, FF_NOWHERE, "token %lld of %s is %u, the vocabulary has %lld",
                  (long long)i, path, number_at(corpus->bytes + i * corpus->width, corpus->width),
                  (long long)vocab);
        ff_report_help(findings, "a text needs vocab=256");
        status = FF_NO;
    }
    return status;
}

int32_t ff_corpus_token(const ff_corpus *corpus, int64_t index) {
    return (int32_t)number_at(corpus->bytes + index * corpus->width, corpus->width);
}

ff_corpus ff_corpus_split(ff_corpus *corpus, int64_t tokens) {
    ff_corpus cut = *corpus;
    corpus->tokens -= tokens;
    cut.bytes += corpus->tokens * corpus->width;
    cut.tokens = tokens;
    return cut;
}
