/* Looking up names of data entries: ids in any case, aliases, and the nearest names for a slip.
 *
 * An entry's `aliases` map a short name to what is assumed when it is used: h100 -> "SXM 80 GB". An
 * empty text assumes nothing. */
#include "cluster/parts.h"

#include "base/text.h"
#include <string.h>
#include <strings.h>

enum { SHOWN_NAMES = 3 };

static const ff_field *alias_of(const ff_field *entry, const char *name) {
    const ff_field *aliases = ff_field_find(entry, "aliases");
    if (aliases == NULL || aliases->kind != FF_FIELD_MAP)
        return NULL;
    for (const ff_field *alias = aliases->first; alias != NULL; alias = alias->next)
        if (strcasecmp(alias->name, name) == 0)
            return alias;
    return NULL;
}

const ff_field *library_find(const ff_field *entries, const char *name, ff_diagnostics *findings) {
    if (entries == NULL)
        return NULL;
    for (const ff_field *entry = entries->first; entry != NULL; entry = entry->next)
        if (strcasecmp(entry->name, name) == 0)
            return entry;
    for (const ff_field *entry = entries->first; entry != NULL; entry = entry->next) {
        const ff_field *alias = alias_of(entry, name);
        if (alias == NULL)
            continue;
        if (alias->text[0] != '\0') {
            ff_report(findings, FF0409, FF_NOWHERE, "%s is taken as %s: %s is assumed", name,
                      entry->name, alias->text);
            ff_report_help(findings, "write %s to say so yourself", entry->name);
        }
        return entry;
    }
    return NULL;
}

typedef struct shortlist {
    const char *name[SHOWN_NAMES];
    int distance[SHOWN_NAMES];
    int count;
} shortlist;

/* How far a name is: edits, less when one begins with the other (a part number cut short). */
static int distance_of(const char *wanted, const char *name) {
    size_t shorter = strlen(wanted) < strlen(name) ? strlen(wanted) : strlen(name);
    if (shorter >= 2 && strncasecmp(wanted, name, shorter) == 0)
        return 1;
    return ff_edit_distance(wanted, name);
}

static void consider(shortlist *list, const char *wanted, const char *name) {
    int distance = distance_of(wanted, name), place = list->count;
    if (distance > 1 + (int)strnlen(wanted, 63) / 3)
        return;
    while (place > 0 && list->distance[place - 1] > distance)
        place--;
    if (place == SHOWN_NAMES)
        return;
    list->count += list->count < SHOWN_NAMES;
    for (int i = list->count - 1; i > place; i--) {
        list->name[i] = list->name[i - 1];
        list->distance[i] = list->distance[i - 1];
    }
    list->name[place] = name;
    list->distance[place] = distance;
}

static void consider_entry(shortlist *list, const char *wanted, const ff_field *entry) {
    consider(list, wanted, entry->name);
    const ff_field *aliases = ff_field_find(entry, "aliases");
    for (const ff_field *a = aliases == NULL ? NULL : aliases->first; a != NULL; a = a->next)
        if (a->name != NULL)
            consider(list, wanted, a->name);
}

void library_suggest(const ff_field *const *entries, int maps, const char *name, const char *list,
                     ff_diagnostics *findings) {
    shortlist near = {0};
    for (int i = 0; i < maps; i++)
        for (const ff_field *e = entries[i] == NULL ? NULL : entries[i]->first; e; e = e->next)
            consider_entry(&near, name, e);
    if (near.count == 0) {
        ff_report_help(findings, "`fivefold show %s` lists the known names", list);
        return;
    }
    ff_text names = {0};
    for (int i = 0; i < near.count; i++)
        ff_text_printf(&names, "%s%s",
                       i == 0                ? ""
                       : i + 1 == near.count ? " or "
                                             : ", ",
                       near.name[i]);
    ff_report_help(findings, "did you mean %s? `fivefold show %s` lists all", ff_text_bytes(&names),
                   list);
    ff_text_free(&names);
}
