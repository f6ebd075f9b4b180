/* Numbers as people read them: the unit follows from the last word of the value's name.
 *
 *     name ends in       63.2 GiB is written for
 *     bytes              GiB, MiB, KiB, B: memory, binary prefixes
 *     sent               GB, MB: what travels, decimal as links are
 *     Bps                GB/s, MB/s: links and memory, decimal as vendors print them
 *     s                  s, ms, us
 *     flop, flops        EFLOP .. MFLOP, TFLOP/s
 *     ratio, mfu         per cent, one decimal
 *     tokens, params     3.50 k stays 3,500; from a million on 4.00 M, 70.55 B
 *     anything else      whole numbers with separators, reals with three digits
 *
 * Three significant digits everywhere (parameters four, as model cards have it); numbers of four
 * digits and more are whole, with separators. A saturated count reads "far too many". */
#ifndef FF_BASE_UNITS_H
#define FF_BASE_UNITS_H

#include "fivefold/facts.h"
#include <stddef.h>

enum { FF_VALUE_BYTES = 48 }; /* room for any formatted value */

/* 8.91, 63.2, 426, 3,508: three significant digits. */
const char *ff_format_significant(double value, char *text, size_t text_bytes);
/* 412,806 */
const char *ff_format_integer(int64_t value, char *text, size_t text_bytes);
const char *ff_format_bytes(double bytes, char *text, size_t text_bytes);
const char *ff_format_seconds(double seconds, char *text, size_t text_bytes);
const char *ff_format_percent(double ratio, char *text, size_t text_bytes);
/* 4.00 M, 70.55 B from a million on, with `digits` significant digits; 977 below. */
const char *ff_format_count(double count, int digits, char *text, size_t text_bytes);
/* Memory in GiB without its unit, for columns whose heading names it. */
const char *ff_format_gib(double bytes, char *text, size_t text_bytes);

/* By the unit that the name says. */
const char *ff_format_number(const char *name, double value, char *text, size_t text_bytes);
/* Any scalar fact, by its own name or (where given) another: text as it is, yes and no, "-" for
 * null, lists and records. */
const char *ff_format_fact(const ff_fact *fact, const char *name, char *text, size_t text_bytes);

#endif
