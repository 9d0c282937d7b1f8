/* Put a text before each part; unless `always`, where the part does not begin with it. */
static int lead(struct tokens *t, const char *text, size_t size, int always) {
    int failed = 0;
    for (size_t i = 0; i < parts(t) && !failed; i++) {
        const size_t begin = t->new_text.size, length = spans(t)[i].end - spans(t)[i].begin;
        const unsigned char *from = t->text.at + spans(t)[i].begin;
        if (always || length < size || memcmp(from, text, size) != 0)
            failed = append(&t->new_text, text, size);
        if (!failed) failed = append(&t->new_text, from, length);
        if (!failed) failed = add_span(t, begin, t->new_text.size);
    }
    return finish(t, failed);
}
