/* Put a text in place of what a pattern matches. */
static int replace(struct tokens *t, const struct item *pattern, const char *text, size_t size) {
    int failed = 0;
    for (size_t i = 0; i < parts(t) && !failed; i++) {
        const struct span in = spans(t)[i];
        const size_t begin = t->new_text.size;
        for (size_t at = in.begin, match = at, end = at; at < in.end && !failed; at = match = end) {
            end = find(pattern, t->text.at, in, &match);
            failed = append(&t->new_text, t->text.at + at, match - at);
            if (match < in.end && !failed) failed = append(&t->new_text, text, size);
        }
        if (!failed) failed = add_span(t, begin, t->new_text.size);
    }
    return finish(t, failed);
}
