/* Leave out the spaces at the begin or the end of each part. */
static int strip(struct tokens *t, int at_begin, int at_end) {
    int failed = 0;
    for (size_t i = 0; i < parts(t) && !failed; i++) {
        struct span part = spans(t)[i];
        const size_t begin = t->new_text.size;
        for (size_t next = part.begin; at_begin && next < part.end; part.begin = next)
            if (!is(read_character(t->text.at, part.end, &next), SPACE)) break;
        while (at_end && part.end > part.begin) {
            const size_t last = before(t->text.at, part.begin, part.end);
            size_t from = last;
            if (!is(read_character(t->text.at, part.end, &from), SPACE)) break;
            part.end = last;
        }
        failed = append(&t->new_text, t->text.at + part.begin, part.end - part.begin);
        if (!failed) failed = add_span(t, begin, t->new_text.size);
    }
    return finish(t, failed);
}
