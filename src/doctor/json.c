/* Prints a diagnosis as JSON. */
#include "doctor/doctor_priv.h"

#include "coll/coll.h"

static void add_string(gy_text *out, const char *text)
{
    gy_text_add(out, "\"");
    for (const char *at = text; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte == '"' || byte == '\\') {
            gy_text_add(out, "\\%c", byte);
        } else if (byte < 0x20 || byte >= 0x7f) {
            /* field names are plain ASCII; other bytes stay legible */
            gy_text_add(out, "\\u%04x", byte);
        } else {
            gy_text_add(out, "%c", byte);
        }
    }
    gy_text_add(out, "\"");
}

static void add_named(gy_text *out, const char *name, const char *text)
{
    gy_text_add(out, "\"%s\": ", name);
    add_string(out, text);
    gy_text_add(out, ", ");
}

static void add_call(const gy_flight *flight, const gy_flight_record *call, gy_text *out)
{
    static const char *const states[] = {"none",    "reserved", "started", "meeting",
                                         "running", "ended",    "failed"};
    char text[GY_RECORD_TEXT];
    _Static_assert(GY_COUNT(states) == GY_RECORD_STATES, "each state has a name");
    if (call == NULL) {
        gy_text_add(out, "null");
        return;
    }
    gy_text_add(out, "{");
    add_named(out, "text", gy_record_text(call, text));
    add_named(out, "state", states[call->state]);
    gy_text_add(out,
                "\"number\": %llu, \"group\": %d, \"called_s\": %.9f, \"entered_s\": %.9f}",
                (unsigned long long)call->number, call->comm_slot,
                gy_doctor_flight_ago(flight, call->started),
                gy_doctor_flight_ago(flight, call->entered));
}

static void add_waits(const gy_diagnosis *diagnosis, int rank, gy_text *out)
{
    const gy_patient *patient = &diagnosis->patients[rank];
    const char *between = "";
    gy_text_add(out, "\"waits_for\": [");
    for (int other = 0; other < diagnosis->flight->head.ranks; other++) {
        if (gy_doctor_waits(diagnosis, rank, other)) {
            gy_text_add(out, "%s%d", between, diagnosis->patients[other].rank->rank);
            between = ", ";
        }
    }
    if (patient->elsewhere >= 0) {
        gy_text_add(out, "%s%d", between, patient->elsewhere);
    }
    gy_text_add(out, "]");
}

static void add_account(const gy_flight_account *a, gy_text *out)
{
    gy_text_add(out, "\"account\": ");
    if (a->steps == 0) {
        gy_text_add(out, "null");
        return;
    }
    gy_text_add(out,
                "{\"steps\": %llu, \"wall_s\": %.9f, \"compute_s\": %.9f, \"bubble_s\": "
                "%.9f, \"transfer_s\": %.9f, \"input_s\": %.9f, \"other_s\": %.9f}",
                (unsigned long long)a->steps, (double)a->wall_ns * 1e-9,
                (double)a->compute_ns * 1e-9, (double)a->bubble_ns * 1e-9,
                (double)a->transfer_ns * 1e-9, (double)a->input_ns * 1e-9,
                gy_doctor_other_s(a));
}

static void add_rank(const gy_diagnosis *diagnosis, int rank, gy_text *out)
{
    static const char *const stages[] = {"absent", "joining", "joined", "left", "dead"};
    const gy_patient *patient = &diagnosis->patients[rank];
    gy_text_add(out, "{\"rank\": %d, \"process\": %d, \"stage\": \"%s\", ", patient->rank->rank,
                patient->rank->process, stages[patient->rank->stage]);
    gy_text_add(out, "\"is_stopped\": %s, \"is_gone\": %s, \"in_flight\": %d, ",
                patient->is_stopped ? "true" : "false", patient->is_gone ? "true" : "false",
                patient->in_flight);
    gy_text_add(out, "\"records\": %llu, \"call\": ", (unsigned long long)patient->rank->begun);
    add_call(diagnosis->flight, patient->call, out);
    gy_text_add(out, ", \"last\": ");
    add_call(diagnosis->flight, patient->last, out);
    gy_text_add(out, ", ");
    add_waits(diagnosis, rank, out);
    gy_text_add(out,
                ", \"late\": {\"collectives\": %d, \"last\": %d, \"mean_s\": %.9f, \"max_s\": "
                "%.9f}, ",
                patient->late_count, patient->late_last, patient->late_mean_s,
                patient->late_max_s);
    add_account(&patient->rank->account, out);
    gy_text_add(out, "}");
}

void gy_diagnosis_json(const gy_diagnosis *diagnosis, gy_text *out)
{
    const gy_flight_head *head = &diagnosis->flight->head;
    gy_text_add(out, "{");
    add_named(out, "program", head->program);
    add_named(out, "host", head->host);
    add_named(out, "cause", head->cause);
    add_named(out, "failure", head->failure);
    gy_text_add(out, "\"read_s\": %.3f, \"size\": %d,\n \"findings\": [",
                (double)head->wall_ns * 1e-9, head->size);
    for (int i = 0; i < diagnosis->finding_count; i++) {
        const gy_finding *finding = &diagnosis->findings[i];
        gy_text_add(out, "%s\n  {", i > 0 ? "," : "");
        add_named(out, "kind", gy_finding_name(finding->kind));
        add_named(out, "text", finding->text);
        gy_text_add(out, "\"ranks\": [");
        for (int rank = 0; rank < finding->rank_count; rank++) {
            gy_text_add(out, "%s%d", rank > 0 ? ", " : "", finding->ranks[rank]);
        }
        gy_text_add(out, "]}");
    }
    gy_text_add(out, "],\n \"ranks\": [");
    for (int rank = 0; rank < head->ranks; rank++) {
        gy_text_add(out, "%s\n  ", rank > 0 ? "," : "");
        add_rank(diagnosis, rank, out);
    }
    gy_text_add(out, "]}\n");
}
