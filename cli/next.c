/* See next.h. */
#include "cli/next.h"

#include "base/fact.h"
#include "base/text.h"
#include <string.h>

/* A word of a command that a shell reads as it is. */
static void append_word(ff_text *command, const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_=+./,:%@";
    bool quoted = strspn(text, plain) < strlen(text);
    ff_text_append(command, quoted ? " '" : " ");
    for (const char *c = text; *c != '\0'; c++)
        ff_text_printf(command, *c == '\'' ? "'\\''" : "%c", *c);
    ff_text_append(command, quoted ? "'" : "");
}

/* 4000000 as 4M, 4096 as it is. */
static void append_tokens(ff_text *command, const char *option, int64_t count) {
    static const struct {
        int64_t unit;
        const char *suffix;
    } scales[] = {{1000000, "M"}, {1000, "k"}, {1, ""}};
    int scale = 0;
    while (count % scales[scale].unit != 0)
        scale++;
    ff_text_printf(command, " %s %lld%s", option, (long long)(count / scales[scale].unit),
                   scales[scale].suffix);
}

static void append_options(ff_text *command, const ff_options *o, int64_t seq) {
    ff_text_printf(command, " --seq %lld", (long long)seq);
    if (o->gbs_sequences > 0)
        ff_text_printf(command, " --gbs %lldseq", (long long)o->gbs_sequences);
    else
        append_tokens(command, "--gbs", o->gbs_tokens);
    if (o->profile != NULL) {
        ff_text_append(command, " --profile");
        append_word(command, o->profile);
    }
    if (o->recipe >= 0)
        ff_text_printf(command, " --recipe %s", ff_recipe_name((ff_recipe)o->recipe));
    if (o->imbalance != 1.0)
        ff_text_printf(command, " --imbalance %g", o->imbalance);
}

void ff_next_facts(const char *model, const char *cluster, const ff_options *options,
                   const ff_job *job, ff_facts *facts) {
    const ff_fact *plans = ff_fact_find(ff_facts_root(facts), "plans");
    if (plans == NULL || plans->first == NULL)
        return;
    bool lesson = job->ledger == FF_LEDGER_LESSON;
    ff_text command = {0};
    ff_text_append(&command, "fivefold explain");
    append_word(&command, model);
    append_word(&command, cluster);
    append_word(&command, ff_fact_text(plans->first, "layout"));
    ff_text_append(&command, lesson ? " lesson" : "");
    append_options(&command, options, job->seq);
    ff_facts_open_list(facts, "next");
    ff_facts_open_record(facts, NULL);
    ff_facts_add_text(facts, "text", "%s", ff_text_bytes(&command));
    ff_facts_close(facts);
    ff_facts_close(facts);
    ff_text_free(&command);
}
