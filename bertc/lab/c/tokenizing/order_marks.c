/* Unicode's canonical order of marks, and with `compose` its canonical composition. */
struct mark {
    uint32_t c, order; /* combining class */
};

/* The character that two become, 0 if they stay. Triples are sorted. */
static uint32_t composed(uint32_t first, uint32_t second) {
    size_t low = 0, high = count(PAIRS) / 3;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const uint32_t *pair = section(PAIRS) + 3 * middle;
        if (pair[0] == first && pair[1] == second) return pair[2] < POINTS ? pair[2] : 0;
        if (pair[0] < first || (pair[0] == first && pair[1] < second)) low = middle + 1;
        else high = middle;
    }
    return 0;
}

/* Sort the marks from `begin` on by class; equal ones stay in order. */
static int sort_marks(struct buffer *work, size_t begin) {
    const size_t bytes = work->size, end = bytes / sizeof(struct mark);
    struct mark *marks = (struct mark *)(void *)work->at;
    size_t i = begin + 1;
    while (i < end && marks[i - 1].order <= marks[i].order) i++;
    if (i >= end) return 0;
    const int failed = reserve(work, (end - begin) * sizeof(struct mark));
    if (failed) return failed;
    marks = (struct mark *)(void *)work->at;
    struct mark *to = marks + end;
    for (uint32_t order = 0; order < 256; order++)
        for (i = begin; i < end; i++)
            if (marks[i].order == order) *to++ = marks[i];
    memcpy(marks + begin, marks + end, (end - begin) * sizeof(struct mark));
    return 0;
}

static size_t compose_marks(struct mark *marks, size_t size) {
    size_t out = 0, starter = size;
    for (size_t i = 0; i < size; i++) {
        const struct mark mark = marks[i];
        const int open = starter < size && (out == starter + 1 || marks[out - 1].order < mark.order);
        const uint32_t all = open && mark.c >= 0x300 ? composed(marks[starter].c, mark.c) : 0;
        if (all) {
            marks[starter].c = all;
            continue;
        }
        if (mark.order == 0) starter = out;
        marks[out++] = mark;
    }
    return out;
}

static int order_marks(struct tokens *t, int compose) {
    int failed = 0;
    size_t run = 0; /* the first of marks that may change places */
    t->work.size = 0;
    for (size_t at = 0; at < t->text.size && !failed;) { /* a normaliser has one part */
        struct mark mark = {read_character(t->text.at, t->text.size, &at), 0};
        mark.order = look_up(ORDERS, mark.c) & 255;
        if (mark.order == 0) failed = sort_marks(&t->work, run);
        if (!failed) failed = append(&t->work, &mark, sizeof mark);
        if (mark.order == 0) run = t->work.size / sizeof mark;
    }
    if (!failed) failed = sort_marks(&t->work, run);
    struct mark *marks = (struct mark *)(void *)t->work.at;
    size_t size = t->work.size / sizeof(struct mark);
    if (!failed && compose) size = compose_marks(marks, size);
    for (size_t i = 0; i < size && !failed; i++) {
        unsigned char bytes[4];
        failed = append(&t->new_text, bytes, encode(marks[i].c, bytes));
    }
    if (!failed) failed = add_span(t, 0, t->new_text.size);
    return finish(t, failed);
}
