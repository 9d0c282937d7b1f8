/* Split the parts where a pattern matches; with `inverted` what it does not match counts. */
enum split { Removed, Isolated, Contiguous, MergedWithPrevious, MergedWithNext };

/* True if a segment goes on with the part of the one before it. */
static int joins(enum split how, int matched, int matches) {
    switch (how) {
    case Contiguous: return matched == matches;
    case MergedWithPrevious: return !matched && matches;
    case MergedWithNext: return matched && !matches;
    default: return 0;
    }
}

static int split_by(struct tokens *t, const struct item *pattern, enum split how, int inverted) {
    int failed = 0;
    for (size_t i = 0; i < parts(t) && !failed; i++) {
        const struct span in = spans(t)[i];
        size_t begin = in.begin, match = in.begin, match_end = in.begin;
        int matched = 0;
        for (size_t at = in.begin, end = at; at < in.end && !failed; at = end) {
            if (match_end == at) {
                match = at;
                match_end = find(pattern, t->text.at, in, &match);
            }
            const int matches = (at == match) ^ inverted;
            end = at == match ? match_end : match;
            if (at > begin && !joins(how, matched, matches)) {
                failed = add_span(t, begin, at);
                begin = at;
            }
            if (how == Removed && matches) begin = end;
            matched = matches;
        }
        if (!failed) failed = add_span(t, begin, in.end);
    }
    swap(&t->spans, &t->new_spans);
    return failed;
}
