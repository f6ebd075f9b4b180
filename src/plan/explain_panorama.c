/* The panorama: every method with this model's numbers; one that the layout does not use is shown
 * at a natural size beside the rest of the layout. */
#include "plan/methods.h"

#include <stdio.h>

#include <string.h>

static bool used(const ff_explained *e, const ff_method *method) {
    const ff_layout *l = &e->layout;
    switch (method->exposure) {
    case FF_EXPOSED_TP:
        return l->tp > 1 && (l->sp == 1) == (strstr(method->title, "SP") != NULL);
    case FF_EXPOSED_PP:
        return l->pp > 1;
    case FF_EXPOSED_CP:
        return l->cp > 1;
    case FF_EXPOSED_EP:
        return l->ep > 1;
    default: {
        ff_layout v = ff_variant_start(e);
        int zero = v.zero;
        return method->use(e, &v) && v.zero == zero;
    }
    }
}

static void size_words(const ff_layout *l, const ff_method *method, char *text, size_t bytes) {
    switch (method->exposure) {
    case FF_EXPOSED_TP:
        snprintf(text, bytes, "tp=%lld", (long long)l->tp);
        break;
    case FF_EXPOSED_PP:
        snprintf(text, bytes, "pp=%lld", (long long)l->pp);
        break;
    case FF_EXPOSED_CP:
        snprintf(text, bytes, "cp=%lld", (long long)l->cp);
        break;
    case FF_EXPOSED_EP:
        snprintf(text, bytes, "ep=%lld", (long long)l->ep);
        break;
    default:
        snprintf(text, bytes, "dp=%lld, zero=%d", (long long)l->dp, l->zero);
    }
}

static void one(const ff_explained *e, const ff_method *method, ff_facts *facts) {
    char size[64];
    ff_variant variant;
    ff_layout layout = ff_variant_start(e);
    if (!method->use(e, &layout)) {
        ff_document_section(facts, "%s: nothing to split here", method->title);
        ff_document_item(facts, "splits", "%s", method->splits);
        return;
    }
    bool in_use = used(e, method);
    ff_variant_look(e, in_use ? &e->layout : &layout, &variant);
    size_words(&variant.layout, method, size, sizeof size);
    ff_document_section(facts, "%s: %s%s", method->title, size,
                        in_use ? " (used)" : " (not used, for comparison)");
    if (variant.possible)
        ff_method_items(e, method, &variant, facts);
    else
        ff_document_item(facts, "splits", "%s", method->splits);
}

void ff_explain_panorama(const ff_explained *e, ff_facts *facts) {
    char text[FF_LAYOUT_TEXT_BYTES];
    ff_document_open(facts, "%s on %s", e->job->model.name, e->job->cluster.name);
    ff_document_section(facts, "%s", "");
    ff_document_say(facts, "%s, %.2f s a step. What each dimension splits, saves and sends:",
                    ff_layout_print(&e->layout, FF_LAYOUT_SHORT, text, sizeof text),
                    e->estimate.time.step_s);
    for (int i = 0; i < ff_method_count; i++)
        one(e, &ff_methods[i], facts);
    ff_document_close(facts);
}
