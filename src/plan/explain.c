#include "plan/explain.h"
ff_status ff_explain(const ff_job *job, const char *layout, const char *topic,
                     ff_diagnostics *findings, ff_facts *facts) {
    (void)job;
    (void)layout;
    (void)topic;
    (void)findings;
    (void)facts;
    return FF_OK;
}
ff_status ff_explain_field(const ff_job *job, const char *layout, const char *field,
                           ff_diagnostics *findings, ff_facts *facts) {
    (void)job;
    (void)layout;
    (void)field;
    (void)findings;
    (void)facts;
    return FF_OK;
}
const ff_topic_help *ff_explain_topic(int index) {
    (void)index;
    return NULL;
}
