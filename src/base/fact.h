/* Filling side of the facts tree (fivefold/facts.h), and the document form that `explain` and
 * `show` use: titled sections of paragraphs, labelled lines and tables.
 *
 * A document is a record with
 *     title     text
 *     sections  [ { heading, blocks: [ block ... ] } ]
 *     block     {text}, {label, text}, {drawing}, or
 *               {table: {columns: [ {key, label} ], rows: [ {key: value} ]}}
 * Invariant: every open is closed; opening outside a list needs a name. */
#ifndef FF_BASE_FACT_H
#define FF_BASE_FACT_H

#include "fivefold/facts.h"

typedef enum ff_basis {
    FF_BASIS_CLOSED_FORM, /* a formula or a summary of the program */
    FF_BASIS_SIMULATED,
    FF_BASIS_EXECUTED,
    FF_BASIS_MEASURED,
    FF_BASIS_ASSUMED,
} ff_basis;
const char *ff_basis_name(ff_basis basis);

/* `name` is NULL inside a list. Names are not copied (use literals); texts are. */
void ff_facts_open_record(ff_facts *facts, const char *name);
void ff_facts_open_list(ff_facts *facts, const char *name);
void ff_facts_close(ff_facts *facts);
void ff_facts_add_integer(ff_facts *facts, const char *name, int64_t value);
void ff_facts_add_real(ff_facts *facts, const char *name, double value);
void ff_facts_add_boolean(ff_facts *facts, const char *name, bool value);
void ff_facts_add_null(ff_facts *facts, const char *name);
void ff_facts_add_text(ff_facts *facts, const char *name, const char *format, ...) FF_PRINTF(3, 4);
/* States the basis of the open record's own numbers, as the text value "basis". */
void ff_facts_add_basis(ff_facts *facts, ff_basis basis);

typedef struct ff_column {
    const char *key;   /* name of the value in each row; NULL ends a list of columns */
    const char *label; /* its heading */
} ff_column;

void ff_document_open(ff_facts *facts, const char *title, ...) FF_PRINTF(2, 3);
/* Starts a section; the one before it ends. The heading may be "". */
void ff_document_section(ff_facts *facts, const char *heading, ...) FF_PRINTF(2, 3);
void ff_document_say(ff_facts *facts, const char *paragraph, ...) FF_PRINTF(2, 3);
void ff_document_item(ff_facts *facts, const char *label, const char *text, ...) FF_PRINTF(3, 4);
/* Text that is printed as it stands, line breaks and all. */
void ff_document_draw(ff_facts *facts, const char *drawing);
/* Rows follow, each an open_record(NULL) ... close; then table_end. */
void ff_document_table(ff_facts *facts, const ff_column *columns);
void ff_document_table_end(ff_facts *facts);
void ff_document_close(ff_facts *facts);

#endif
